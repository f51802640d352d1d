"""A bulk load is sent if its files are there, and its files are let go only after its acknowledgement."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from walferry.hbase.rpc.errors import ConnectionFailed, TableNotFound
from walferry.replication.sinks.errors import PeerClusterUnreachable, Stopped
from walferry.replication.sinks.hbase import bulk_loads
from walferry.replication.sinks.hbase.bulk_loads import BulkLoadFailed, HFileSender, HFileSource
from walferry.replication.sinks.hbase.shipment import BulkLoad, Shipment

LOAD = BulkLoad("t", "region1", ("default/t/region1/f/a", "default/t/region1/f/b"), ("c",))


class Sending:
    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[object] = []
        self.refs: set[str] = {"a", "b", "c"}
        self.missing: list[int] = []
        self.error: Exception | None = None
        self.root = root
        source = HFileSource("east", f"file://{root}")
        self.sender = HFileSender(self.kept, self, source, self.missing.append, 60.0)  # type: ignore[arg-type]

    def kept(self, names: Sequence[str]) -> list[str]:
        return [f"/hbase/replication/hfile-refs/p/{name}" for name in names if name in self.refs]

    def file(self, name: str, place: str = "data", size: int = 100) -> None:
        path = self.root / place / "default/t/region1/f" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))

    def remove_hfile_refs(self, names: Sequence[str]) -> None:
        self.calls.append(names)

    def ship(self, shipment: Shipment, deadline: float, timeout: float) -> None:
        self.calls.append(timeout)
        if self.error:
            raise self.error

    def run(self, entries: int = 1, load: BulkLoad = LOAD) -> None:
        bytes_ = (np.zeros(3, np.uint8),) * entries
        self.sender.ship(self.ship, Shipment(bytes_, bytes_, entries, entries, 1, 3 * entries, 5, load), load, 0.0)


@pytest.fixture
def sending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sending:
    return Sending(tmp_path, monkeypatch)


def test_files_are_let_go_after_the_acknowledgement(sending):
    sending.file("a")
    sending.file("b", "archive/data")
    sending.run()
    assert sending.calls[1] == ("a", "b", "c")
    assert not sending.missing


def test_a_server_has_the_time_that_copying_takes(sending):
    sending.file("a", size=5_000_000)
    sending.file("b", size=10_000_000)
    sending.run()
    assert sending.calls[0] == 60.0 + 3


def test_without_a_lease_on_the_queue_no_file_is_let_go(sending, tmp_path):
    sending.file("a")
    sending.file("b")
    sending.sender = HFileSender(sending.kept, None, HFileSource("east", f"file://{tmp_path}"), sending.missing.append, 60.0)
    sending.run()
    assert len(sending.calls) == 1  # the load itself


def test_a_load_without_entries_is_only_let_go(sending):
    sending.run(entries=0, load=BulkLoad("t", "r", (), ("x",)))
    assert sending.calls == [("x",)]


@pytest.mark.parametrize(
    "error",
    [
        PeerClusterUnreachable("zk:2181:/hbase", 1000.0, 7, "rs:1: IOException: Failed to copy HFiles", answered=True),
        TableNotFound("rs:1", "TableNotFoundException", "'t' was not found", True),
        ConnectionFailed("rs:1", "refused"),
    ],
)
def test_a_failure_names_table_region_files_and_what_to_do_and_lets_nothing_go(sending, error):
    sending.file("a")
    sending.file("b")
    sending.error = error
    with pytest.raises(BulkLoadFailed) as e:
        sending.run()
    text = str(e.value)
    assert "bulk load of region region1 of table t (f/a, f/b): " in text
    assert (error.last_error if isinstance(error, PeerClusterUnreachable) else str(error)) in text
    assert f"able to read file://{sending.root}/data" in text
    assert "<hbase.replication.conf.dir>/east" in text
    assert len(sending.calls) == 1


@pytest.mark.parametrize(
    "error",
    [PeerClusterUnreachable("zk", 0.0, 0, "no more time"), PeerClusterUnreachable("zk", 0.0, 3, "refused"), Stopped("stop")],
)
def test_a_lack_of_time_or_of_servers_is_not_the_load_s_fault(sending, error):
    sending.file("a")
    sending.file("b")
    sending.error = error
    with pytest.raises(type(error)):
        sending.run()


def test_a_file_that_is_lost_is_not_passed_over(sending):
    """A sink would pass over it silently."""
    sending.file("a")
    with pytest.raises(BulkLoadFailed, match=r"1 of its files, which the source should keep, are neither in .*/data nor in") as e:
        sending.run()
    assert "delete the references to them, such as /hbase/replication/hfile-refs/p/b" in str(e.value)
    assert not sending.calls


def test_a_file_that_is_no_longer_referred_to_may_be_gone(sending):
    sending.file("a")
    sending.refs = {"a"}
    sending.run()
    assert sending.missing == [1]
    assert sending.calls[1] == ("a", "b", "c")


def test_what_a_wal_names_a_file_ends_no_line_of_a_log(sending, caplog):
    sending.run(load=BulkLoad("t\nERROR", "r\x1b[2J", ("default/t/region1/f/a\r\nERROR",)))
    (record,) = caplog.records
    assert record.getMessage().isprintable()


def test_a_file_system_that_does_not_answer_stops_the_load(sending, monkeypatch):
    def broken(url: str) -> int:
        raise bulk_loads.StoreError(f"{url}: no answer")

    monkeypatch.setattr(bulk_loads, "file_size", broken)
    with pytest.raises(BulkLoadFailed, match=r"region1/f/a: no answer\. Check root_dir"):
        sending.run()
    assert not sending.calls
