"""A peer and a WAL group as their source's status has them, for tests."""

from __future__ import annotations

from tests.unit.observe.status.views import HOUR, NOW, group_of, queue, wal
from walferry.observe.status.describing import describe
from walferry.observe.status.files import FilesSeen
from walferry.observe.status.history import Sample
from walferry.observe.status.model import GroupStatus, PeerStatus
from walferry.observe.status.view import Holder, ZooKeeperView

HELD = {("p", group_of()): Holder("batch 7", "2027-01-15T08:00:00+00:00", "run")}
BEHIND = queue(wal(NOW - 3 * HOUR, 100), wal(NOW - 2 * HOUR), wal(NOW - HOUR))


def peer_of(seen: ZooKeeperView, files: FilesSeen | None = None, history: tuple[Sample, ...] = ()) -> PeerStatus:
    (found,) = describe(seen, files, histories={"p": history}).peers or ()
    return found


def group_of_one(seen: ZooKeeperView, files: FilesSeen | None = None) -> GroupStatus:
    (found,) = peer_of(seen, files).queues or ()
    (group,) = found.groups
    return group


def name(begun: int) -> str:
    return wal(begun).name.text


SIZES = FilesSeen({name(NOW - 3 * HOUR): 1100, name(NOW - 2 * HOUR): 5000})
