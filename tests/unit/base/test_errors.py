"""Errors say what to do, and stay whole on their way between processes."""

from __future__ import annotations

import importlib
import pickle
import pkgutil

import pytest

import walferry
from walferry.base.errors import MAX_CHARS, WalferryError
from walferry.hbase.errors import StalePeer
from walferry.hbase.rpc.errors import RpcTimeout
from walferry.hbase.wal.errors import WalTornError
from walferry.replication.sinks.errors import PeerClusterUnreachable

# Signals between two of our own functions: no caller outside their module's package sees them.
SIGNALS = {
    "Stopped", "BadValue", "NotJava", "WrongPassword", "Untranslatable", "UnknownDictionary", "NeedsScan", "BrokenCells",
    "NotForFiles", "OutOfTime", "NotARecord", "Unsure",
}  # fmt: skip


@pytest.mark.parametrize(
    "error",
    [StalePeer("2", "gone"), RpcTimeout("rs:1", "ReplicateWALEntry", 60.0),
     PeerClusterUnreachable("zk:1:/h", 1000.0, 3, "no route"),
     WalTornError("hdfs://w", 7, "cut off", 12)],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_an_error_is_the_same_in_another_process(error: WalferryError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    assert again.advice or not error.advice


@pytest.mark.long
def test_all_errors_of_the_library_have_one_root() -> None:
    strays = []
    for module in pkgutil.walk_packages(walferry.__path__, "walferry."):
        if module.name.endswith("__main__"):
            continue
        for kind in vars(importlib.import_module(module.name)).values():
            if not (isinstance(kind, type) and issubclass(kind, Exception) and kind.__module__ == module.name):
                continue
            if not issubclass(kind, WalferryError) and kind.__name__ not in SIGNALS and not kind.__name__.startswith("_"):
                strays.append(f"{module.name}.{kind.__name__}")
    assert not strays


EVIL = "evil\n[2026-11-25T10:00:00] {taskinstance.py:99} INFO - Task exited with return code 0\x1b[2J\u202e\r"


@pytest.mark.parametrize("error", [WalferryError(f"no {EVIL}", f"see {EVIL}"), RpcTimeout(EVIL, EVIL, 60), StalePeer("2", EVIL)])
def test_an_error_is_one_line_whatever_a_server_or_a_library_says(error: WalferryError) -> None:
    assert str(error).isprintable()
    assert error.advice.isprintable()
    assert "Task exited with return code 0" in str(error)


def test_an_error_has_a_bound() -> None:
    assert len(str(WalferryError("x" * 3_000_000, "y"))) <= MAX_CHARS + 3
