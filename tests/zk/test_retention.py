"""The files in oldWALs, the queues that hold them, and the report about them."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, LastingZNodes, wal
from walferry.airflow.tasks.retention import RetentionReport
from walferry.hbase.files import systems
from walferry.hbase.files.store import WalStore, WrongRoot
from walferry.replication.retention.limits import OldWalLimits, exceeded
from walferry.replication.retention.survey import Fate, OldWalSurvey, ShippedBy, list_old_wals, survey
from walferry.replication.source.session import Session

TTL = 600.0
HOUR = 3600.0
LIMITS = OldWalLimits(held_gib=1, blocked_hours=24, days_left=7)


class Site:
    """A source with files in oldWALs. `now` is the time of surveys."""

    def __init__(self, hbase: HBaseZNodes, zk: KazooClient, folder: Path) -> None:
        self.hbase, self.folder = hbase, folder / "oldWALs"
        self.folder.mkdir()
        self.now = time.time()
        self.session = Session(replace(session_of(zk, hbase).source, wal_root=f"file://{folder}"), zk)

    def add(self, name: str, *queues: tuple[str, str], age: float = 2 * HOUR, size: int = 10, folder: str = "") -> str:
        """Add a file of `size` bytes, last written `age` seconds ago, and its WAL to queues (server and queue id)."""
        path = self.folder / folder / name
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            file.truncate(size)
        os.utime(path, (self.now - age, self.now - age))
        for server, queue in queues:
            self.hbase.add_wal(server, queue, name)
        return name

    def survey(self) -> OldWalSurvey:
        return survey(self.session, TTL, lambda: self.now)

    def warnings(self, limits: OldWalLimits = LIMITS) -> list[str]:
        return [finding.line for finding in exceeded(self.survey(), limits)]

    def report(self, listed: int = 100) -> RetentionReport:
        found = self.survey()
        return RetentionReport("oldWALs", found, exceeded(found, LIMITS), listed)


@pytest.fixture
def site(lasting_hbase: LastingZNodes, zk: KazooClient, tmp_path: Path) -> Site:
    return Site(lasting_hbase, zk, tmp_path)


def test_each_file_has_its_fate_and_the_queues_that_hold_it(site: Site) -> None:
    both = site.add(wal(1), (SERVER, "p"), (OTHER, f"q-{SERVER}"), size=100)
    young = site.add(wal(2), age=TTL - 60)
    free = site.add(wal(3, DEAD), age=TTL + 60, folder=DEAD)
    held_and_young = site.add(wal(4), (SERVER, "p"), age=10, size=1)
    master = site.add("localhost%2C16000%2C1.1$masterlocalwal$")
    meta = site.add(f"{wal(5)}.meta", age=TTL - 1)
    found = site.survey()
    fates = {each.wal.name: (each.fate, {f"{queue.server}/{queue.id}" for queue in each.queues}) for each in found.wals}
    assert fates == {
        both: (Fate.HELD, {f"{SERVER}/p", f"{OTHER}/q-{SERVER}"}),
        young: (Fate.YOUNG, set()),
        free: (Fate.FREE, set()),
        held_and_young: (Fate.HELD, {f"{SERVER}/p"}),
        master: (Fate.OTHER, set()),
        meta: (Fate.YOUNG, set()),
    }
    assert (found.amount().files, found.amount(Fate.HELD).bytes) == (6, 101)
    p, q = found.blockers
    assert (p.peer_id, p.held.files, p.held.bytes, p.held_alone.files, p.held_alone.bytes) == ("p", 2, 101, 1, 1)
    assert (q.peer_id, q.held.files, q.held_alone.files, list(q.queues)) == ("q", 1, 0, [f"{OTHER}/q-{SERVER}"])
    assert found.blocked_seconds(p.held) == pytest.approx(2 * HOUR - TTL, abs=1)


def test_behind_each_queue_is_a_peer_that_is_shipped_or_not(site: Site) -> None:
    site.hbase.add_peer("enabled", "ENABLED", {})
    site.hbase.add_peer("forgotten", config={})
    for peer in ("p", "enabled", "forgotten", "gone"):
        site.add(wal(len(peer)), (SERVER, peer))
    shipped_by = {blocker.peer_id: blocker.shipped_by for blocker in site.survey().blockers}
    assert shipped_by == {
        "p": ShippedBy.WALFERRY, "enabled": ShippedBy.HBASE, "forgotten": ShippedBy.NOBODY, "gone": ShippedBy.GONE
    }  # fmt: skip


def test_nothing_is_warned_of_while_no_threshold_is_passed(site: Site) -> None:
    site.add(wal(1), (SERVER, "p"), age=20 * HOUR)
    site.add(wal(2), age=TTL + 60)
    assert site.warnings() == []


def test_warnings_say_what_to_look_after(site: Site) -> None:
    site.hbase.add_peer("forgotten", config={})
    site.add(wal(1), (SERVER, "p"), age=50 * HOUR, size=3 << 30)
    site.add(wal(2), (SERVER, "forgotten"), age=60 * HOUR)
    site.hbase.add_wal(SERVER, "gone", wal(9))
    site.add(wal(3), age=5 * HOUR)
    site.add(wal(4), (SERVER, "p"), age=-HOUR)
    site.hbase.zk.create(f"{site.hbase.nodes.queues}/lost+found")
    held, p, forgotten, gone, not_server, overdue, future = site.warnings()
    assert held == "old-wals: queues hold 3.0 GiB in oldWALs, more than 1 GiB"
    assert p.startswith(
        "peer p: old-wals: it holds 2 WALs in oldWALs (3.0 GiB), the oldest for 49.8 hours; shipped by Walferry. Look"
    )
    assert forgotten.startswith("peer forgotten: old-wals: it holds 1 WALs in oldWALs")
    assert "; shipped by nobody: it is DISABLED and not managed. Enable it" in forgotten
    assert gone.startswith(
        "peer gone: old-wals: it has 1 WALs queued; shipped by nobody: there is no such peer. Run drain_recovered_queue"
    )
    assert "(lost+found): HBase's log cleaner stops at them" in not_server
    assert overdue.startswith("log-cleaner: HBase's log cleaner has left 1 WALs for more than 2 hours that no queue holds")
    assert future.startswith("log-cleaner: 1 WALs were written in the future")


def test_a_disk_that_will_be_full_is_foreseen(site: Site) -> None:
    room = os.statvfs(site.folder)
    a_fifth = room.f_bavail * room.f_frsize // 5  # in a day, with holes for bytes
    for hours in (24, 12, 0):
        site.add(wal(100 - hours), (SERVER, "p"), age=hours * HOUR, size=a_fifth // 2)
    assert site.warnings(OldWalLimits(held_gib=1 << 30, blocked_hours=24, days_left=7)) == [
        "old-wals: the disk under oldWALs is full in 5 d if what queues keep there (of peers: p) grows on so"
    ]
    assert site.warnings(OldWalLimits(held_gib=1 << 30, blocked_hours=24, days_left=4)) == []


def test_the_report_lists_each_wal_with_age_size_and_queues(site: Site) -> None:
    site.add(wal(1), (SERVER, "p"), (OTHER, f"p-{SERVER}"), age=50 * HOUR, size=1234)
    site.add(wal(2), age=60)
    report = site.report()
    text = report.as_text()
    assert f"{wal(1)}  2 days, 2:00:00  1,234 bytes  held by queues: {SERVER}/p, {OTHER}/p-{SERVER}" in text
    assert f"{wal(2)}  0:01:00  10 bytes  younger than the TTL" in text
    assert "WARNING peer p: old-wals: it holds 1 WALs" in text
    assert f"  {SERVER}/p: 1 WALs, 1,234 bytes, the oldest 2 days, 2:00:00" in text
    assert "bytes are left on the disks" in text
    assert "(1 younger files; the parameter `listed` says how many are shown)" in site.report(listed=1).as_text()
    reported = report.to_xcom()
    assert reported["amounts"]["held by queues"] == {"files": 1, "bytes": 1234}
    (blocker,) = reported["blockers"]
    assert (blocker["peer"], blocker["heldLogs"], blocker["queued"], blocker["queues"]) == ("p", 1, 2, 2)
    assert blocker["blockedSeconds"] == pytest.approx(50 * HOUR - TTL, abs=1)
    assert [(each["name"], each["size"], len(each["queues"])) for each in reported["wals"]] == [
        (wal(1), 1234, 2),
        (wal(2), 10, 0),
    ]
    assert not reported["ok"]


def test_an_empty_folder_and_a_wrong_one_are_told_apart(site: Site) -> None:
    assert site.report().as_text().startswith("oldWALs  files")
    assert "No queue holds a WAL." in site.report().as_text()
    site.folder.rmdir()
    with pytest.raises(WrongRoot):
        list_old_wals(WalStore(site.session.store.root))


@pytest.mark.parametrize("wals", [2_000, pytest.param(100_000, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_a_report_of_very_many_files_makes_few_calls(
    wals: int, site: Site, zk: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each name is read once, and no single file is asked for."""
    servers = [f"rs-{number:02}.example.org,16020,1700000000001" for number in range(40)]
    for peer in ("p", "q"):
        for server in servers:
            site.hbase.zk.ensure_path(site.hbase.nodes.queue(server, peer))
    for number in range(wals):
        site.add(wal(number, servers[number % 40]))
    held = [
        site.hbase.nodes.wal(servers[number % 40], peer, wal(number, servers[number % 40]))
        for number in range(wals)
        for peer in ("p", "q")
        if number % 4
    ]
    for start in range(0, len(held), 500):
        for created in [site.hbase.zk.create_async(path) for path in held[start : start + 500]]:
            created.get()
    calls: Counter[str] = Counter()
    count_calls(zk, calls, monkeypatch)
    began = time.monotonic()
    report = site.report()
    text = report.as_text()
    seconds = time.monotonic() - began
    print(f"{wals:,} files: {seconds:.2f} s, {dict(calls)}")
    assert report.survey.amount(Fate.HELD).files == wals - wals // 4
    assert len(text.splitlines()) > 100
    assert calls["scandir"] == 1
    assert calls["file_size"] == 2  # to check the root
    assert calls["GetChildren"] + calls["GetChildren2"] <= 2 + 3 * len(servers) + 10
    assert seconds < 2 + wals / 5_000


def count_calls(zk: KazooClient, calls: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    send, scandir, size = zk._call, os.scandir, systems.file_size

    def call(request: Any, result: Any) -> Any:
        calls[type(request).__name__] += 1
        return send(request, result)

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any) -> Any:
            calls[name] += 1
            return function(*args)

        return wrapper

    monkeypatch.setattr(zk, "_call", call)
    monkeypatch.setattr(os, "scandir", counted("scandir", scandir))
    monkeypatch.setattr("walferry.hbase.files.store.file_size", counted("file_size", size))
    monkeypatch.setattr("walferry.hbase.files.systems.file_size", counted("file_size", size))


def test_files_of_servers_folders_are_listed_in_one_call_each(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for server in (SERVER, DEAD):
        for number in range(3):
            site.add(wal(number, server), folder=server)
    (site.folder / "not a server").mkdir()
    calls: Counter[str] = Counter()
    count_calls(site.session.zk, calls, monkeypatch)
    assert len(list_old_wals(site.session.store)) == 6
    assert calls["scandir"] == 3
