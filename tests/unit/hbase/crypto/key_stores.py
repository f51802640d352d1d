"""Key stores made by the JDK's keytool, with the store password `opensesame`, and the keys that Java finds in them.

keytool -genseckey -keystore … -storetype JCEKS|PKCS12 -keyalg AES -keysize 128 -alias hbase -keypass opensesame
the same with -keysize 256 -alias Wal (in the JCEKS with the password `different`), -keyalg DESede -alias tripledes,
and -genkeypair -keyalg EC -alias server; LEGACY with -J-Dkeystore.pkcs12.legacy, as Java before 16 (8u301) did
"""

from base64 import b85decode

PASSWORD = "opensesame"
WAL_PASSWORD = "different"

JCEKS = b85decode(
    "&d$!x00002000050000200(q(b#ruOWB>pGq5cx-@&E-`E;TSY0003pFoFRtFoD&e0|Eg80ti-ARbx2%EO9Uj1_&yKNX|V30|GD%F$ypU1_M<D0}}ywFdi"
    "2TGBz<WGBGhSGB!0ZS{Ds6H!w0WIWaOaHZ?F>FbpvYFbD<%RRjYQ0eCQ3FcSs`DuzhTJpus+2r7n1&OHMG2LnO?1P@ZB#kKK{son}7)wD+g+CjeMa%j`m;"
    "|Nz`jq2_JgQ*D!rCR)r*DvGd2(QUt5OeGFhjO8x`?42owZV1c$D<)IA21yT163Uk1QrAo++n$pWQN|e$?MTzd^UMG!*)Q4FbW0;DuzhTJp=;+14sZcMFJr"
    "JoAk>5CS=(OmWi}hrI48>M+bEjEwF6(GAbOrOc0JU0w7JTy$ri<wlou-dUg}=O}6O%*4QQkh|0&^1U9IUXV3ru00RI8XkuY=WdHyHq5cxjAFS;F1#@x$Gh"
    "=UUE^~EmE@N_eaCC1jaB^>UX=G(`E>mS;Y-MCmVrpe$bVhG-OJ#Xba&L5HV{~tF%~#4<=P<id0ssJbasU}>VRm77E@N_eaCC1jQ)OXnWn@ocYGq?|J~ln3"
    "!?#p$0ssVC01ahsV{c?-WKdypVQq7C00LV=TL2JcZewzJaCBv4LvL<$Wo~qF0Db@hOaKXRVRB(@b3trpbN~`eYGHO^FKl6MXD?H9a%pa7J4^rvb7f&{L2P"
    "Gn0Db@icyM)c00LV=tn(N61_)H(0ssJbZ~y=R5HJn|2v-q;aEFqkAOZp>5Or|?egFjk0058>s6RiNDEl<hgx{HRb6u5DQsS}?a@m5NLr-n*>*82mHmYRu*"
    "f1uVv!5BY-Vzd%m0dz*XX2#wof=P4%y{hPk?a}IwRbN1uMj24KFI;V*bjqjSBwXI$5#&BwRq7g-L?Z>nqf*Ra5mh&JKiQl64IoO(8Q)Dv<JhnoZ48B7UG#"
    "6tD9lL5GuVyYwq!M02WX}MOSHbXiY>lL2hJJa%pgEWkf|&bO07mLPb|;bZAXPH9>A<RB~x>Y-L16Qvd(}0{{beVQc^Z0ipg9+taM=00nb$05fB6Z7y?lZZ"
    "2bTd2n=ZE^u;hc4=f~axPP4VQgh&Phx6iV{}Gua!X}-P;zf{Wn*-2a?MxDS?4gjQvv`0cya(4YGHO^crIgdd2n=ZE>mS;Y-MCmVrpe$bUrpcro*>XZ~_1X"
    "TL2AZZewp`Wn@rca$#+AbN~WdLR$b3Wo~0~d2n=PWJ7OmbY*UIaR7b*0!#o2aA9&`ZF50vXLJA(Olo0vVJ~c9Zf7r3baH8KXFE&)2Xkd%Y(Z>iaR7b*19)"
    "(CasUEbLag%__y!16-~s>ucyIs!01z+^1PHjF@>{)2)eiy!ClGaU0Db@k0001>+8U(9)yf+!0m56+0PH+QFcqae3-X)PHF$YOxmL#S6imRL#SdgCTLdpg="
    "c}|LWV6AQ&JBkcV`@lnx?Mm&H%D1Z6D{eFgi_UH+YB$t%aE)WkKtM)we!RHTguS~)FD<z1nPWCa_!kzb6nGWb0}+RmBtIEG`hsZWL%Qc<aYWk0EzQoi&YS"
    "yONLziCX&+waGKmwluk+uo+4@qbO07mLPb|;bZAXPH9>A<RB~x>Y-L16Q*;0pP(nplX>@2!L^VNfWK?o#aBO8nMN<F(00RICbaH8MY-MC+a{vGVq5cx$nX"
    "K&q1#@x$Gh=UUE^~EmE@N_eaCC1jaB^>UX=G(`E>mS;Y-MCmVrpe$bVhG-OJ#Xba&L5HV{~tF%~#4<=P<id0ssJbasU}>VRm77E@N_eaCC1jQ)OXnWn@oc"
    "YGq?|J~ln3!?#p$0ssVC01ahsV{c?-WKdypVQq7C00LV=TL2JcZewzJaCBv4LvL<$Wo~qF0Db@hOaKXRVRB(@b3trpbN~`eYGHO^FKl6MXD?H9a%pa7J4^"
    "rvb7f&{L2PGn0Db@icyM)c00LV=tn(N61_)H(0ssJbZ~y=R5HJn|2%x?DZbl=d+yVk85Or|?egFjk00AHraVFm<4vg$3G4FdfLl}+ZUH*Wal2#jDK0UWOj"
    ">+u_t9aPOCC$Vxvp*t=TjY8DZb3b|a%kpT1@;I%AI55(XOii;!$p&9OTtA%HKRV?-s2<#T{1cFjs^?*l;%R+On8xbnoXK}^4BL6Ub#IScj?;I5VKeg>o$+"
    "<>vKjIHXa$mn2z+m`!r~agbfu4t)@a%zdw&u4aKz=C~<@Q{pj-Qbmo?O)~&T_yzT?f*zK+VPt!&?f#<MU*pIA$({&krFEE!k%_d{&q))C!e4MFd!Lv(pgQ"
    "TXNbJmL+O+%mttx6lhm-ulJvg2+KYqEJpioTC&*M9T$QYP0Ln9)+0ERj1dAR*sGV7RPZ<?J<?v*yZcy>aU?CK`)$02WX}MOSHbXiY>lL2hJJa%pgEWkf|&"
    "bO07mLPb|;bZAXPH9>A<RB~x>Y-L16Qvd(}0RRSbWpZ|9asU7Uq5cxs&j0`bX)tFn8wLq01_1;CDgqM$Fb)I=w8$S}Snx;^0s<!x1W3$3GX-m@Md}eqts{"
    "RI=Ob)|2lF(r>7m*?LnsDTxV#&c8GOweo2YrGW1ya9RRo=V;XKa6<EKkvKC2TAB-KFj?>h?f+r|I@00966SS~d%IRF3wGBAPxE--=BpaTK{0s;tDR8?a*`"
    "YdrU3I+%&hDgpm1Ooyv3^58Y2nGXH1OpQRcrYFp4Kg+{F)}eRGBP$bFj^N4GB+?XF*z|ZGB!0ZS}+VT3NQ!;162eA69ITISuhg@2P%e0&OHJF1_&yKNX|V"
    "20S5y@00a+GrNy=Jj;Y=XAJw!+1KL5p<#K4#*5e3QVvXwV0fVUt2&G#5jn^;Z<_NFJU=VZb^oMexpZl^GY_-94<Hw^RFdr}-1_M<c4g?ki6x?CCkYtA5v&"
    "rkxV0<=tIm329i7*NV2r7n1&OHPJ0s}|@Fhv3(0Gss6{w8GE36_bpR;7@cCPxQ#6fLl9_%bRSyi5>|GXfw@t-TDpZniWNo_cl@@J+Vp{?^zg1BlAU-2^tM"
    "kY~^t^7R!Q>aN>XZ{q}h2hkesAbxu"
)
PKCS12 = b85decode(
    "FoFjO0s#Xsf(Ek&2`Yw2hW8Bt2LYgh2BZXn2B0v42AnX01XBhHDuzgg_YDCD0ic2eL<E8aKrn&?JTQU*0|pB!hDe6@4FL=a0R^CevoL|M1`8^NNQU<f0Sp"
    "QO0-%AQ1c99}ftoO81_>&LNQU<f0R;^(Sui*T2`Yw2hW8Bt1q?7N1QbD?KuD4qG~^Qbns`$*cbU_tl*j@C1Ly()ATSID2r7n1hW8Bu2?YQ!9R>+thDZTr0"
    "|Wso1Q2&2UBHVy2k@q^ZhGDF&e#MnVihZ(g)BO16atL@7bc9$3(qeYP%^Rd=f`nxyDXPm-R3m5%yX7*hO90Hhm}+OF+MOE1_>&LNQU<f0SOc_3?2#qXaHg"
    "WVE}UgWiTNI2`Yw2hW8Bt2^BFE1QJwfZDk-aH#s#jHZ(CXF)}weFoFRO1`8^NNQU<f0SpQO0-%AtFoC)-W(El=hDe6@4FLrWFj+7-1_>&LNQU<f0R;>&D+"
    "Cms7#BEpE5-j-hRp)kL%6S-^|v(w0t4s*0U$681_&yKNQU<f0tp2GFdYU7V1`HmWdj5ODg+RU7@tP%(Ay0?W|%+nBwwopP%X*#qQjpa%WK=h9WAC@P!NzH"
    "SNFrvukEy9^B#2nJIf{EIo5xj1q&2>7`yZ_hZf;JShWT1Q?h^Ab-A4^6oG~+(%26AHj&#pumA~Wt}#F`8wLp~hDe6@4FL%hF%BLK0CNCk0CE6!0A&DjFd+"
    "sBDuzgg_YDCF6)_Y95>#nzWgsy(IW;miG%+wSH!?CXf&mW(3o3?4hW8Bt3<?1Spn=0Mfxrd}Duzgg_YDCI3IPJ3fv^ODtuTSAFlGh`Duzgg_YDCB4KP_SI"
    "0gwShDe6@4FLrVFe?NU0Cnb5xJdXzH)j%XA1-y~xl58n0s;f*0s$Z}3<d})hDe6@4FU-T05BZ}31Egu0c8UO0V)I#RKM38^<kDs%jr?#$8F4Q1VH9wWPKY"
    "L<D-CRlIvk}Z@cDJGKZTT3tD&2fb(amK`c$gc*X8;_@491`S6k=ioS?zqk*tjQsr|T#g6}G%%d?nFck&~Duzgg_YDCF6fp=M1^{;eVE}9}AqEL5hDe6@4F"
    "L%iF%$$6RB3HxATc*NH8M6dF)%VSF)=WL0Sg8TDuzgg_YDCI3IPS6fwM4yum%e%hDe6@4FL=a0Ro_bpag-PFoBvdW(El=hDe6@4FLrWFj+7-1_>&LNQU<f"
    "0R;>&D+ClkB#<qncVjUX|HfVa{~~4Ks$5$F0t4s*0U$681_&yKNQU<f0tp2GFdYU7V1`HmWdj5ODg+P}u;q1Ow_9^R6YoX`h(*T)FtaYsY02eSr|AzTRLf"
    "TinbzvG2=F`hS9f^3ne$Oissm}9Lu(WqRcCM6+Y{oNU@=B8AqEL5hDe6@4FL%hF%%vW0CWIy0BHbl0Bitd0Av7V0CO-Q1_>&LNQU<f0SOf`6a*4fX>Da7F"
    "*i9iGBz|ZFf%hUHZXz$K?VsbhDe6@4FLxRpn?K2FoFUu0s#Opf&wQ72`Yw2hW8Bt2LUi<1_>&LNQU<f0R;^(Sui*T2`Yw2hW8Bt1q?7N1QZUs-kf&c%z=|"
    "#?-_q5lTXe)h%y2K1Ly()ATSID2r7n1hW8Bu2?YQ!9R>+thDZTr0|Wso1Q2LBI{Ze@=xv}eIA&XS1O<SC0kA~x(cZQ}3~MQ`<7lh%!Icfh%TJ*XEifj^Hl"
    "&lY%QA-dD}58-nj21<3Wt6biAY`j=0R4s2mu5X{Awxq9}q2qVYB%IEOCWU&;4QKqI6QB#2o|lCARsn-3%jWAju2QK7+@RG?I=vyXIQsRBA3$c!O4>cXYr8"
    "Rc<h!N&uHRfIy&2tU>ZQz!ekyUN_Rsuv@RES*I){M>^()g+{n=IE{FWSgQ%7toA{fPk<^>WzUtR?xU|79F%du%%7(3ILJ29vzM>FMi`np@MSNWa<FO`f!L"
    "UOSF=z!`fO{Y)LfZ#O!_5rr_mnJck5BO;sWDqQN`W_;k4k?AYe;ApXQy$QNSY*RWvZEkx1uU+PfJ+|J{UcYyem{tHrT*+PwlmlqK}UJCN^g*;|*=e<&i^J"
    "MIPYx4PN67XCq4-_isbO?a;)4XA!-0vk_nRtm;ceR$Rp9#6$6@hH+D?0QD_iPwQAWb-Kda#wW>bD+~F^ueqsJ)ok1uC<qne2UvAiUFG4mN63V0|Wa@0!Pg"
    "THjON=jFoY~`k$Ne&5dNq2$iON^o8jApL;M(FflL<1_@w>NC9O71OfpC00bZ`V4|W+@bAY69fkwTUey17apTTPYn7PY&;`qaT|d+W6kN_l+{%)lpU+z_Z)"
    "b$yvYq0W%mM-f=l"
)
LEGACY = b85decode(
    "FoFe?0s#Xsf(1<m2`Yw2hW8Bt2LYgh1wI6V1v)T-1vW5(12P5)Duzgg_YDCD0ic2dBLsp2A25Og8!&;n1`8^NNQU<f0SpQO1)yp$Xa)-^hDe6@4FL=a0Ro"
    "^|1XnOsFewHKDuzgg_YDCI0Ru1_1QbQ$ZCsJ8^l24!Ege9;oZfmOjA#M_0K-rOC>IfNg;V_INeQE5e|07{cb<iY6Mq8g$w9vYDkadMz56sJvQB>~Vlh528"
    "3qX|hDe6@4FL%hF$^9G0B8VW0AT=g0A(;C1_>&LNQU<f0SOf`6a*4fX>Da7F*i9iGBz|ZFf=nZF))G11`8^NNQU<f0SpQO0-$#=bucLg3Mz(3hW8Bt3;_c"
    "$8w3=i)i?M`xq{FwReA&j>GR#%2qTgL0|3KN1W2mRO7U@*Cv5VWsksMve_N9!f**i1YCXj)G9Fwv|B&7zHq>w@fFl`~uD*WuyR-wmJxl*pw6pcliin0wMx"
    "cGs)^O;UDVZ@qFdGI5Duzgg_YDCF6fq7S3;=TgWdL#jb^v7naxftV2`Yw2hW8Bt2^BFE1QJwfZDk-aH#s#jHZ(CXHZ?IfFoDGe3o3?4hW8Bt3<?1Spn5QP"
    "1`8^NNQU<f0SpQO0-$LGXE0?jDFzBEhDe6@4FL=R127u|6f@lIU&t>_uepZlzlurND4Ag(z5)XP!%ze`xT&n^`(jJfWxH_(qXnHvrm_UmWJ;>{3FP0&f=D"
    ";_ofbcFVps;8x!pFk1u%+uM~|ljJ18@+F*-061_>&LNQU<f0SOc_2p$FicK~4kY%n1P2`Yw2hW8Bt2^BFE1QJwfZDk-aH#s#jHZ(CXH#RvmFoDSi3o3?4h"
    "W8Bt3<?1SpmH#91`8^NNQU<f0SpQO0-#|8Uoc%TDFzBEhDe6@4FL=R127u|6e8Z_(EHNLM7_-YuN;%%cWz0k=mG-(!%ze;mP0I{VRB=W`-ckclj;E*)3TZ"
    "kk0I@kHQh^&8gQad_niX}29?)`n+P|!!%07VF-9;U1_>&LNQU<f0SOc_6dn=)bO3SyX#j8lYyf2dWB_FVb1)$W2`Yw2hW8Bt2^BFE1QJwfZDk-aH#s#jHZ"
    "(CXI5;^lFoFU61_>&LNQU<f0S5-4f&uL?f&u9Q0RS+90pbP;Duzgg_YDCD0Wc{B3Mz(3hW8Bt3;_l(8w3=gPpY1=RL5&2TkgpR?Hu#$PMr1v0|3KNfPw+2"
    "j-@5>Z;C;mw91+~tw#0))pVGV&ZWtOtmOA`rrtyaYoGYXZ1t9shgoh7mOe|JI<I>ViO+XMkD%t{t@Uv%y*X%7u2QK$qP=2>C!Kk@je9;tG*p<aIWwpvU~i"
    "XL_eNDLgmwK*OR&EW6JnUN@P>ul*54G1FU&0)PA(OjmS<neEH1QcC9?YUb5|QH3Y8>zt1vF?3zq;S1{?j#8aRfn@YkjTm(r7|KvmQ4mO?elFeZfy-IxCI;"
    "(NsKT{P&a*ayQ!9l`=OXYdCtP;AK{<9UAj?p`<*9U?^wO&9|_yzWa~wwinj*VEl%b?~H^^eF3qo`K68kRKfEmXP`h<`9!)r*w7a_W;Y~36?-c{aVKy4j&1"
    "$wr~mH5%)^A!}<#Xd)>Z{^{J>%(fn0zTdte3M7ho~dVne8V`Iz{R3g$&T5)Txb|q+iXU412HS-bBTzezW)DUhka~J|vdwO%&DtXkKJ3fG(tvywB8RWP<6L"
    "}tu-O@otJBD8Wma&f>tUK*Jp1P4ENbjIX<wz<yVd|#B`<j2diR*eJ=p^DMFg`FLFbM_)D-Ht!8U+9Z6rl)Vv@<f*ubQWO0d3EMZO40ISp*ccz9^@Xu8Iv1"
    "HU5b03=t#!>>`Q+0|ADh"
)
JKS = b85decode(
    "{_Xzl00002000010000100whqa&~2M0004@{u1~L0001gFnur%1_~<%0R#am0uccL1powVWX`Ovk2+MVVBywBtK-Z>^U8XPlWAVDp3FrPr1Zp9xP7M{2sv"
    "KS=>Jk_kD+kpg1(}hU~6c|_&PdLI91gPBHAKyZ`OjZkAkZ8d4naBS|YE1kIZBxSitgt_;YDojVeAiFVqiFlMclI000311z0XMFgXAK0W>gz0WdIu)}R9d0"
    "RjRE0QffE76q;3SuhF)2r7n1&OHPJ0x%3Q3NQ!;162eA69ITI9v2NVHZd_WF)=bSHZ?d}7Y#BuFfuVYF)}hXH8@%@3^58Y2nGXH1OpQRcraNo69xw=hDgp"
    "m0s#gHDuzhTJp%y;13~}<Ylr`(3*QUaKTx(?jDM*DlbI0sG#(`Mn#oZgEv|O95oJlCw^<#^7E4=eOLHSL@U{$!!hS}QeU1QS@!(3AqaiRKFdYU1RUHll76"
    "cU2MD_rQ=PZasrvA`>z;7mM!{9403I+%&hDgpm1OoyCNdPcL0wDnLn;VW!;=_+?{&(owg(Kv(Z5h4O2@GC5ZT21)_(!?|AppHjT|)9H-3q5!9XGqLs~pzI"
    "{eUbx$gpdnrnFHToUoRS^6jVh$_(Gq6qAjv;qls%y5#"
)

KEYS = {
    "JCEKS": {
        "hbase": bytes.fromhex("9c7133b7fa93438dd79f3a64e2ba5606"),
        "wal": bytes.fromhex("dcbd9467e2fe95b3b37d4418ee2f27aa70b7be50389b63485a9b2889ae22005a"),
    },
    "PKCS12": {
        "hbase": bytes.fromhex("ab2801a12a153a8b5d1e43e23e82138c"),
        "wal": bytes.fromhex("319f3773ded9e202f55bea16b51300ef4d717824bca24cad93495eac68ce1e0d"),
    },
    "LEGACY": {
        "hbase": bytes.fromhex("ca36cdcb8f17c5f872a03f08ec4a4a14"),
        "wal": bytes.fromhex("ebc96d9608787c25ce62fc0842291ba8cff62e1208bbcfbe2ff0535b44628a33"),
    },
}
