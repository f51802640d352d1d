"""Logins travel as JSON, and leave the password for one ZooKeeper at home when they are used for another cluster."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.base.records import record_of
from walferry.base.security.login import Kerberos, Login, Protection, Tls, ZooKeeperAuth, ZooKeeperLogin
from walferry.base.zk.login import password_of

texts = st.text(min_size=1, max_size=10)
maybe = st.none() | texts
tls = st.builds(Tls, ca=texts, certificate=maybe, key=maybe, key_password_file=maybe)
kerberos = st.builds(
    Kerberos, principal=maybe, keytab=maybe, protection=st.none() | st.sampled_from(Protection),
    servers=st.lists(texts).map(tuple), hosts=st.lists(texts).map(tuple), only_hosts=st.booleans(),
)  # fmt: skip
zookeepers = st.builds(
    ZooKeeperLogin,
    auth=st.sampled_from(ZooKeeperAuth), server=texts, user=maybe, password_file=maybe, tls=st.none() | tls,
)  # fmt: skip
logins = st.builds(Login, user=maybe, kerberos=st.none() | kerberos, tls=st.none() | tls, zookeeper=zookeepers)


@given(logins)
def test_a_login_is_the_same_after_a_way_as_json(login):
    assert record_of(Login, json.loads(json.dumps(asdict(login)))) == login


def test_a_login_without_anything_is_the_unsecured_one():
    assert record_of(Login, {}) == Login()


@pytest.mark.parametrize(
    "fields", [{"kerberos": {"protection": "none"}}, {"tls": {}}, {"zookeeper": {"auth": "magic"}}, {"kerberos": {"key": "k"}}]
)
def test_what_is_no_login_is_refused(fields):
    with pytest.raises((TypeError, ValueError)):
        record_of(Login, fields)


def test_for_another_cluster_a_login_is_without_the_password_for_zookeeper():
    digest = ZooKeeperLogin(auth=ZooKeeperAuth.DIGEST, user="u", password_file="/p", tls=Tls(ca="/ca"))
    login = Login(kerberos=Kerberos(principal="p@R", keytab="/k"), zookeeper=digest).without_password()
    assert login.zookeeper == ZooKeeperLogin(tls=Tls(ca="/ca"))
    assert login.kerberos == Kerberos(principal="p@R", keytab="/k")


def test_the_tickets_of_kerberos_go_to_other_clusters_too():
    login = Login(kerberos=Kerberos(principal="p@R"), zookeeper=ZooKeeperLogin(auth=ZooKeeperAuth.KERBEROS))
    assert login.without_password() == login


@pytest.mark.parametrize(
    ("host", "meets"),
    [
        ("rs1.west.example.com", True), ("RS1.West.Example.com.", True), ("nn", True), ("west.example.com", False),
        ("rs1.east.example.com", False), ("rs1.west.example.com.evil.org", False), ("nnn", False), ("", False), ("[::1]", True),
    ],
)  # fmt: skip
def test_a_peer_cluster_s_principal_is_used_with_the_hosts_that_are_named(host, meets):
    login = Login(kerberos=Kerberos(principal="p@R", hosts=("*.west.example.com", "nn"))).for_peer_clusters("[::1]")
    assert login.kerberos.may_meet(host) is meets


def test_a_source_s_principal_is_used_with_whatever_host_the_source_names():
    assert Kerberos(principal="p@R", hosts=("nn",)).may_meet("rs1")
    assert not Login(kerberos=Kerberos(principal="p@R")).for_peer_clusters().kerberos.may_meet("rs1")


def test_namenodes_have_to_protect_what_is_said_unless_less_is_accepted():
    assert (Kerberos().of_hbase, Kerberos().of_namenodes) == (Protection.AUTHENTICATION, Protection.INTEGRITY)
    for each in Protection:
        assert {Kerberos(protection=each).of_hbase, Kerberos(protection=each).of_namenodes} == {each}


@pytest.mark.parametrize(("principal", "realm"), [("w/h@EAST", "EAST"), ("w", None), (None, None)])
def test_the_realm_is_that_of_the_principal(principal, realm):
    assert Kerberos(principal=principal).realm == realm


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_password_is_a_file_s_text_without_the_end_of_its_line(tmp_path: Path, end: str) -> None:
    (tmp_path / "p").write_bytes(f" pass word {end}".encode())
    assert password_of(str(tmp_path / "p")) == b" pass word "
