"""Giving a tree of znodes away, however it was built by those to whom it was open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kazoo.security import CREATOR_ALL_ACL

from walferry.zk import acls

DEPTH = 1200  # deeper than calls may be nested


def test_a_tree_of_any_depth_is_given_away_with_its_root_last(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    class Client:
        def set_acls(self, path: str, acl: object) -> None:
            given.append(path)

    def retried(zk: object, call: Callable[..., Any], *args: object) -> object:
        return call(*args)

    monkeypatch.setattr(acls, "retried", retried)
    monkeypatch.setattr(acls, "children", lambda zk, path: ["a", "b"] if path.count("/") < DEPTH and path.endswith("a") else [])
    acls._take(Client(), "/a", CREATOR_ALL_ACL)
    assert len(given) == len(set(given)) == 2 * DEPTH - 1
    assert given[-1] == "/a"
    assert given.index("/a/a") > given.index("/a/a/a")
