"""A summary is believed only if it could have been written so."""

from __future__ import annotations

import json

import pytest

from walferry.base.records import NotARecord
from walferry.engine.summary import GroupSummary, Status
from walferry.observe.status.notes import MAX_SUMMARY_BYTES, MAX_SUMMARY_CHARS, checked_summary

SUMMARY = GroupSummary(group="g", status=Status.FAILED, error="no", shippedOps=7, seconds=1.5, logEditsFiltered={"scope": 2})


def written(**changes: object) -> bytes:
    return json.dumps({**json.loads(SUMMARY.to_json()), **changes}).encode()


def test_what_a_run_writes_is_read_back() -> None:
    assert checked_summary(SUMMARY.to_json().encode()) == SUMMARY
    full = GroupSummary(group="g", deletedAtBoth=("t",), replicationLag=1, tables={"t": [1, 2, 3]}, peer_cluster="zk:2181:/hbase")
    assert checked_summary(full.to_json().encode()).peer_cluster == "zk:2181:/hbase"


def test_fields_of_another_version_are_passed_over() -> None:
    assert checked_summary(written(newFigure=[1])) == SUMMARY


def test_texts_are_bounded_lines() -> None:
    found = checked_summary(written(error="a\n\x1b[31m" + "b" * 9000, sink="c" * 9000))
    assert found.error is not None
    assert found.error.startswith("a  [31mb")
    assert len(found.error) == len(found.sink) == MAX_SUMMARY_CHARS


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"7",
        b"\xff\xfe",
        b"{}",
        b"[" * 100_000,
        b'{"group": "g", "status": "done", "x": "' + b"y" * MAX_SUMMARY_BYTES + b'"}',
        b'{"group": "g", "status": "done", "shippedOps": ' + b"9" * 5000 + b"}",
        *(
            written(**{name: wrong})
            for name, wrong in [
                ("shippedOps", "7"), ("shippedOps", 7.5), ("shippedOps", True), ("shippedOps", 1 << 63), ("shippedOps", None),
                ("seconds", float("nan")), ("seconds", float("inf")), ("seconds", "1"), ("error", 7), ("error", ["no"]),
                ("status", "finished"), ("status", None), ("group", None), ("peer_cluster", {}), ("deletedAtBoth", 7),
                ("logEditsFiltered", [1]), ("passing", 1), ("replicationLag", "0"), ("timestampOfNextToReplicate", {}),
            ]
        ),
    ],
)  # fmt: skip
def test_what_is_no_summary_is_refused(value: bytes) -> None:
    with pytest.raises(NotARecord):
        checked_summary(value)
