"""Settings of a peer are checked before anything is asked or changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.status.views import peer
from walferry.admin.changing import set_values, settings_of
from walferry.admin.errors import Refused


class NotAsked:
    """An admin that nobody asks anything."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")


@pytest.mark.parametrize("name", ["max_lag", "walferry.max_lag"])
def test_a_limit_of_the_lag_is_checked_first(name: str) -> None:
    with pytest.raises(Refused, match=r"walferry\.max_lag is '5 minutes'; it must be a number of seconds from 1 to 31536000"):
        set_values(NotAsked(), "p", {name: "5 minutes"})  # type: ignore[arg-type]


def test_marks_are_no_settings() -> None:
    with pytest.raises(Refused, match="paused is not a setting"):
        set_values(NotAsked(), "p", {"paused": "true"})  # type: ignore[arg-type]
    with pytest.raises(Refused, match="did you mean max_lag"):
        set_values(NotAsked(), "p", {"maxlag": "5"})  # type: ignore[arg-type]


def test_the_limit_is_shown_among_the_settings_and_marks_are_not() -> None:
    config = {"walferry.managed": "true", "walferry.paused": "false", "walferry.max_lag": "300", "walferry.sink": "direct"}
    assert settings_of(replace(peer(), config=config)) == {"max_lag": "300", "sink": "direct"}
