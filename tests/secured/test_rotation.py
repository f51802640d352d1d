"""Keys change and tickets end while Walferry is at work: refusals are reported, and the next try goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded.kerberos import Kerberos
from embedded.secured import HBASE, principals
from embedded.secured_site import USER, SecuredSite, protected
from tests.secured.logins import login
from tests.secured.servers import server_of
from walferry.base.security.gssapi import DISTRUST_SECONDS, credential_of
from walferry.base.security.login import Kerberos as Identity
from walferry.base.security.login import Login
from walferry.hbase.rpc.admin import connect, roll_wal_writer
from walferry.hbase.rpc.errors import NotAuthenticated, SaslRefused

REALM = "NORTH.EXAMPLE"
TICKET_SECONDS = 12


@pytest.fixture(scope="module")
def kdc(cluster_folder: Path) -> Iterator[Kerberos]:
    """Its own realm, because all its tickets end with its keys."""
    with Kerberos(cluster_folder / "north", {REALM: principals(USER)}) as kdc:
        yield kdc


@pytest.fixture(autouse=True)
def environment(kdc: Kerberos, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def site(kdc: Kerberos, cluster_folder: Path) -> Iterator[SecuredSite]:
    site = protected("privacy", realm=REALM)(cluster_folder / "north-site", kdc, None, "north-site")  # type: ignore[arg-type]
    with site.cluster:
        yield site


@pytest.fixture
def brief_tickets(kdc: Kerberos) -> Iterator[None]:
    kdc.ticket_seconds = TICKET_SECONDS
    kdc.write_settings()
    yield
    kdc.ticket_seconds = None
    kdc.write_settings()


def roll_at_last(site: SecuredSite, by: Login) -> None:
    """Try until it works, which takes no longer than tickets are trusted that are as good as new."""
    give_up = time.monotonic() + 2 * DISTRUST_SECONDS
    while True:
        try:
            return roll_wal_writer(server_of(site.cluster), login=by, timeout=30)
        except NotAuthenticated:
            if time.monotonic() > give_up:
                raise
        time.sleep(0.5)


def test_a_keytab_that_was_replaced_is_read_for_the_next_ticket(site: SecuredSite, kdc: Kerberos) -> None:
    by = login(site)
    assert by.kerberos
    roll_wal_writer(server_of(site.cluster), login=by, timeout=30)
    kdc.change_key(f"{USER}@{REALM}")
    roll_wal_writer(server_of(site.cluster), login=by, timeout=30)  # by the ticket that there is
    credential_of(by.kerberos).forget()
    roll_wal_writer(server_of(site.cluster), login=by, timeout=30)


def test_a_server_with_a_new_key_refuses_the_old_ticket_once(site: SecuredSite, kdc: Kerberos) -> None:
    by = login(site)
    roll_wal_writer(server_of(site.cluster), login=by, timeout=30)
    kdc.change_key(f"{HBASE}@{REALM}")
    site.cluster.kill()
    site.cluster.start()
    with pytest.raises(SaslRefused, match="GSS initiate failed"):
        roll_wal_writer(server_of(site.cluster), login=by, timeout=30)
    roll_at_last(site, by)


def test_tickets_that_have_ended_are_got_anew_by_the_keytab(site: SecuredSite, brief_tickets: None) -> None:
    """The library itself renews tickets that last for a minute or longer; see the next test."""
    by = login(site)
    assert by.kerberos
    credential_of(by.kerberos).forget()  # those of the tests before last for a day
    roll_wal_writer(server_of(site.cluster), login=by, timeout=30)
    with connect(server_of(site.cluster), login=by, timeout=30) as connection:
        connection.open(10)
        time.sleep(TICKET_SECONDS + 1)
        roll_at_last(site, by)  # the first try may find that they have ended
        assert connection.is_open, "a connection outlives the ticket that it was opened with"


@pytest.mark.soak
def test_tickets_are_renewed_before_they_end(site: SecuredSite, kdc: Kerberos, brief_tickets: None) -> None:
    kdc.ticket_seconds = 70
    kdc.write_settings()
    by = login(site)
    assert by.kerberos
    credential_of(by.kerberos).forget()
    for _ in range(5):
        roll_wal_writer(server_of(site.cluster), login=by, timeout=30)
        time.sleep(40)


def test_tickets_of_kinit_end_and_are_named(
    site: SecuredSite, kdc: Kerberos, brief_tickets: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by = Login(kerberos=Identity(servers=(f"{HBASE}@{REALM}",)))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")
    with pytest.raises(NotAuthenticated, match=r"no ticket for the principal of the credential cache.*kinit"):
        roll_wal_writer(server_of(site.cluster), login=by, timeout=30)
    with monkeypatch.context() as patch:  # the library itself does then what kinit does
        patch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{kdc.keytab(f'{USER}@{REALM}')}")
        roll_wal_writer(server_of(site.cluster), login=by, timeout=30)
    roll_wal_writer(server_of(site.cluster), login=by, timeout=30)
    time.sleep(TICKET_SECONDS + 1)
    with pytest.raises(NotAuthenticated, match=r"Ticket expired|Requested effective lifetime is negative or too short"):
        roll_wal_writer(server_of(site.cluster), login=by, timeout=30)
