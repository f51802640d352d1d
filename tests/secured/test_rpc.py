"""RPC to real servers of secured clusters: the agreed protection, and each way in that must fail."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from embedded.certificates import Authority
from embedded.kerberos import Kerberos
from embedded.secured_site import EAST, WEST, SecuredSite, identity
from tests.secured.logins import login
from tests.secured.servers import server_of
from walferry.base.protos.hbase_pb2 import ReplicateWALEntryResponse
from walferry.base.security.login import Login, Protection, Tls
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.admin import connect, roll_wal_writer
from walferry.hbase.rpc.errors import AccessDenied, ConnectionFailed, NotAuthenticated, NotSecured, SaslRefused

PADDING = 20 << 20


def reported(server: ServerName, by: Login) -> str:
    """Return the text of the server's refusal, or of ours."""
    with pytest.raises(NotAuthenticated) as caught:
        roll_wal_writer(server, login=by, timeout=30)
    return str(caught.value)


def padded(size: int) -> bytes:
    """A message whose only field is one that HBase does not know, of `size` bytes."""
    length = bytearray()
    left = size
    while left > 0x7F:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    return b"\xfa\x3f" + bytes((*length, left)) + os.urandom(size)


def test_the_strongest_protection_that_both_sides_allow_is_on_the_connection(peer_site: SecuredSite) -> None:
    with connect(server_of(peer_site.cluster), login=login(peer_site), timeout=30) as connection:
        for size in (0, 100, 70_000, PADDING):
            connection.call("GetServerInfo", padded(size), ReplicateWALEntryResponse)
        assert connection.security
        assert connection.security.protection == (peer_site.protections[-1] if peer_site.protections else None)
        assert connection.security.tls == ("TLSv1.3" if peer_site.tls else None)


def test_a_server_that_closes_idle_connections_is_connected_to_again(peer_site: SecuredSite) -> None:
    with connect(server_of(peer_site.cluster), login=login(peer_site), timeout=30) as connection:
        for _ in range(3):
            connection.call("GetServerInfo", b"", ReplicateWALEntryResponse)
            connection.close()
        assert connection.security is None


def test_the_source_takes_the_stronger_of_two(source_site: SecuredSite) -> None:
    with connect(server_of(source_site.cluster), login=login(source_site), timeout=30) as connection:
        connection.call("GetServerInfo", b"", ReplicateWALEntryResponse)
        assert connection.security
        assert connection.security.protection is Protection.INTEGRITY


def test_a_server_says_itself_which_principal_it_has(source_site: SecuredSite) -> None:
    either = login(source_site, server_principals=[f"hb/_HOST@{EAST}", f"hbase/_HOST@{EAST}"])
    roll_wal_writer(server_of(source_site.cluster), login=either, timeout=30)


def test_less_protection_than_demanded_is_refused(source_site: SecuredSite) -> None:
    why = reported(server_of(source_site.cluster), login(source_site, protection=Protection.PRIVACY))
    assert "offers authentication and integrity, but at least privacy is demanded" in why


def test_a_peer_cluster_that_names_servers_of_the_source_does_not_lead_us_there(source_site: SecuredSite) -> None:
    """The source knows the principal, and its server would accept every call that is meant for the peer cluster."""
    peer_cluster = login(source_site, hosts="*.west.example.com").for_peer_clusters()
    why = reported(server_of(source_site.cluster), peer_cluster)
    assert (
        "is not used with the host 'localhost', which only the peer cluster names: its connection names *.west.example.com" in why
    )
    roll_wal_writer(server_of(source_site.cluster), login=login(source_site, hosts="localhost").for_peer_clusters(), timeout=30)


def test_a_principal_of_another_realm_is_refused(source_site: SecuredSite, kerberos: Kerberos) -> None:
    stranger = login(source_site, **identity(kerberos, f"walferry@{WEST}"), server_principals=f"hbase/_HOST@{EAST}")
    assert f"walferry@{WEST} got no access to hbase/localhost@{EAST}" in reported(server_of(source_site.cluster), stranger)


def test_a_server_without_the_demanded_principal_is_refused(source_site: SecuredSite) -> None:
    why = reported(server_of(source_site.cluster), login(source_site, server_principals=f"yarn/_HOST@{EAST}"))
    assert f"got no access to yarn/localhost@{EAST}" in why


def test_a_server_that_has_not_the_key_of_its_principal_is_refused(source_site: SecuredSite) -> None:
    """The KDC gives a ticket for any principal that it knows. The server that listens there cannot read this ticket."""
    with pytest.raises(SaslRefused, match="GSS initiate failed"):
        roll_wal_writer(
            server_of(source_site.cluster), login=login(source_site, server_principals=f"walferry@{EAST}"), timeout=30
        )


def test_a_keytab_of_somebody_else_is_told(source_site: SecuredSite, kerberos: Kerberos) -> None:
    wrong = login(source_site, keytab=str(kerberos.keytab(f"stranger@{EAST}")))
    assert "holds no key of" in reported(server_of(source_site.cluster), wrong)


def test_a_keytab_that_is_not_there_is_named(source_site: SecuredSite, kerberos: Kerberos) -> None:
    gone = login(source_site, keytab="/no/such.keytab")
    assert "keytab /no/such.keytab cannot be read: No such file" in reported(server_of(source_site.cluster), gone)


def test_a_kdc_that_is_not_there_is_told(source_site: SecuredSite, kerberos: Kerberos) -> None:
    elsewhere = login(source_site, principal="walferry@NOWHERE.EXAMPLE")
    assert "no ticket for walferry@NOWHERE.EXAMPLE" in reported(server_of(source_site.cluster), elsewhere)


def test_who_comes_without_kerberos_is_told_to_bring_it(source_site: SecuredSite) -> None:
    with pytest.raises(AccessDenied, match="Give its connection a principal and a keytab"):
        roll_wal_writer(server_of(source_site.cluster), login=Login(user="hbase"), timeout=30)


@pytest.fixture(scope="module")
def plain(standalone_pair) -> ServerName:
    return server_of(standalone_pair.peer_cluster)


def test_a_server_that_says_it_is_not_secured_gets_no_request(plain: ServerName, source_site: SecuredSite) -> None:
    with pytest.raises(NotSecured):
        roll_wal_writer(plain, login=login(source_site), timeout=30)


def test_a_server_that_has_none_of_our_principals_gets_no_request(plain: ServerName, source_site: SecuredSite) -> None:
    with pytest.raises(NotSecured):
        roll_wal_writer(plain, login=login(source_site, server_principals=f"a/_HOST@{EAST}, b/_HOST@{EAST}"), timeout=30)


def test_a_server_without_tls_gets_no_request(plain: ServerName, authority: Authority) -> None:
    assert "TLS" in reported(plain, Login(tls=Tls(ca=str(authority.pem))))


TLS_ALONE = pytest.mark.parametrize("peer_site", ["tls"], indirect=True)
TLS_WITH_KERBEROS = pytest.mark.parametrize("peer_site", ["privacy-tls"], indirect=True)
EACH_TLS = pytest.mark.parametrize("peer_site", ["tls", "privacy-tls"], indirect=True)


@TLS_WITH_KERBEROS
def test_tls_alone_does_not_replace_kerberos(peer_site: SecuredSite) -> None:
    """A certificate does not identify a user."""
    with pytest.raises(AccessDenied):
        roll_wal_writer(server_of(peer_site.cluster), login=replace(login(peer_site), kerberos=None, user="hbase"), timeout=30)


@EACH_TLS
def test_who_comes_without_tls_is_not_let_in(peer_site: SecuredSite) -> None:
    with pytest.raises(ConnectionFailed):
        roll_wal_writer(server_of(peer_site.cluster), login=replace(login(peer_site), tls=None), timeout=30)


@EACH_TLS
def test_a_certificate_of_another_authority_is_refused(peer_site: SecuredSite, tmp_path: Path) -> None:
    other = login(peer_site, tls_ca=str(Authority(tmp_path).pem))
    assert "the certificate that localhost shows is not accepted" in reported(server_of(peer_site.cluster), other)


@EACH_TLS
def test_a_certificate_of_another_host_is_refused(peer_site: SecuredSite) -> None:
    server = replace(server_of(peer_site.cluster), host="127.0.0.1")
    assert "IP address mismatch, certificate is not valid for '127.0.0.1'" in reported(server, login(peer_site))


@TLS_ALONE
def test_a_server_that_demands_our_certificate_says_so(peer_site: SecuredSite) -> None:
    without = replace(login(peer_site), tls=Tls(ca=peer_site.tls["tls_ca"]))
    assert "tls_certificate" in reported(server_of(peer_site.cluster), without)
