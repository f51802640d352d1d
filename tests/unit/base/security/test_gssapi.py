"""The ticket cache that a credential uses, without Kerberos: the test's own library records the requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from walferry.base.security import gssapi
from walferry.base.security.gssapi import Credential, credential_of
from walferry.base.security.login import Kerberos


class Library:
    """Gives every credential, and keeps the caches that were asked for."""

    def __init__(self) -> None:
        self.caches: list[bytes] = []

    def gss_acquire_cred_from(self, *args: Any) -> int:
        store = args[5]._obj
        found = {store.elements[place].key: store.elements[place].value for place in range(store.count)}
        self.caches.append(found[b"ccache"])
        return 0

    def __getattr__(self, name: str) -> Any:
        return lambda *args: 0


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(gssapi, "library", lambda: made)
    return made


@pytest.fixture
def login(tmp_path: Path) -> Kerberos:
    (tmp_path / "keytab").write_bytes(b"of a format that is left to the library")
    return Kerberos(principal="walferry@EXAMPLE.COM", keytab=str(tmp_path / "keytab"))


def test_tickets_are_kept_until_they_are_given_up(library: Library, login: Kerberos) -> None:
    credential_of(login).get()
    credential_of(login).get()
    credential_of(login).forget()
    credential_of(login).get()
    first, second, third = library.caches
    assert first == second != third


def test_tickets_that_are_given_up_are_not_those_of_another_credential(library: Library, login: Kerberos) -> None:
    others = [Credential(login) for _ in range(3)]
    for times, other in enumerate(others):
        for _ in range(times):
            other.forget()
        other.get()
    mine = Credential(login)
    mine.forget()
    mine.get()
    assert library.caches[-1] not in library.caches[:-1]
