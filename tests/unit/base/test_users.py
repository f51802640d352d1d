"""Commands run where the process's user has no entry in passwd, as in containers with an arbitrary uid."""

from __future__ import annotations

import getpass
import os
import re

import pytest

from walferry.base.users import user_name
from walferry.cli import local_ship


def test_a_user_without_a_name_is_known_by_the_uid(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 123_456_789)
    assert user_name() == "uid-123456789"
    assert " by uid-123456789 at " in local_ship.run_name("ship")


def test_a_user_with_a_name_is_known_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "etl")
    assert user_name() == getpass.getuser() == "etl"
    assert re.match("walferry ship by etl at ", local_ship.run_name("ship"))
