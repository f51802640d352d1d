"""A list of children is kept until its watch fires, also if that happens while it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from walferry.base.zk import watched_children
from walferry.base.zk.errors import AnswerTooLong
from walferry.base.zk.watched_children import WatchedChildren


class Ensemble:
    """Lists of children, and the watches on them. `meanwhile` is called while a list is read, after the answer was made."""

    def __init__(self) -> None:
        self.lists: dict[str, list[str] | AnswerTooLong] = {"/a": ["1"], "/b": ["2", "3"]}
        self.read: list[str] = []
        self.watches: dict[str, Callable[[WatchedEvent], None]] = {}
        self.meanwhile: Callable[[], None] = lambda: None

    def children_each(self, _: Any, paths: Sequence[str], watch: Callable[[WatchedEvent], None]) -> list[Any]:
        self.read += paths
        found = [self.lists.get(path) for path in paths]
        self.watches |= {path: watch for path in paths if path in self.lists}
        self.meanwhile()
        return found

    def change(self, path: str, *names: str) -> None:
        self.lists[path] = list(names)
        self.watches.pop(path)(WatchedEvent(EventType.CHILD, KeeperState.CONNECTED, path))

    def lose(self) -> None:
        watches, self.watches = self.watches, {}
        for watch in watches.values():
            watch(WatchedEvent(EventType.NONE, KeeperState.CONNECTING, None))


@pytest.fixture
def ensemble(monkeypatch: pytest.MonkeyPatch) -> Ensemble:
    ensemble = Ensemble()
    monkeypatch.setattr(watched_children, "children_each", ensemble.children_each)
    return ensemble


@pytest.fixture
def look(ensemble: Ensemble) -> Callable[..., tuple[list[Any], list[str]]]:
    """Return what is known of these lists, and which of them were read for that."""
    known: WatchedChildren[int] = WatchedChildren(len)

    def look(*paths: str, client: Any = "client") -> tuple[list[Any], list[str]]:
        ensemble.read.clear()
        return known.of(client, paths, lambda _: None), list(ensemble.read)

    return look


Look = Callable[..., tuple[list[Any], list[str]]]


def test_a_list_is_read_once_and_again_when_it_has_changed(ensemble: Ensemble, look: Look) -> None:
    assert look("/a", "/b") == ([1, 2], ["/a", "/b"])
    assert look("/b", "/a") == ([2, 1], [])
    ensemble.change("/b", "2", "3", "4")
    assert look("/a", "/b") == ([1, 3], ["/b"])


def test_a_change_during_the_reading_is_seen_by_the_next_one(ensemble: Ensemble, look: Look) -> None:
    ensemble.meanwhile = lambda: ensemble.change("/b", "5")
    assert look("/a", "/b") == ([1, 2], ["/a", "/b"])
    ensemble.meanwhile = lambda: None
    assert look("/a", "/b") == ([1, 1], ["/b"])


def test_a_change_of_what_is_known_already_hides_nothing_from_a_reading_that_is_under_way(ensemble: Ensemble, look: Look) -> None:
    look("/a")
    ensemble.meanwhile = lambda: ensemble.change("/a", "6", "7")
    assert look("/a", "/b") == ([1, 2], ["/b"])
    ensemble.meanwhile = lambda: None
    assert look("/a", "/b") == ([2, 2], ["/a"])


@pytest.mark.parametrize("during", [False, True])
def test_after_a_lost_connection_all_lists_are_read_again(ensemble: Ensemble, look: Look, during: bool) -> None:
    look("/a")
    if during:
        ensemble.meanwhile = ensemble.lose
    look("/b")
    ensemble.meanwhile = lambda: None
    if not during:
        ensemble.lose()
    assert look("/a", "/b") == ([1, 2], ["/a", "/b"])


def test_another_client_has_watches_of_its_own(look: Look) -> None:
    look("/a")
    assert look("/a", client="another") == ([1], ["/a"])


def test_what_is_not_there_or_too_long_is_asked_for_each_time(ensemble: Ensemble, look: Look) -> None:
    too_long = AnswerTooLong("/long", 1)
    ensemble.lists["/long"] = too_long
    for _ in range(2):
        assert look("/none", "/a", "/long")[0] == [None, 1, too_long]
    assert ensemble.read == ["/none", "/long"]
