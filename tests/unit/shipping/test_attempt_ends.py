"""How an attempt ends whose peer is paused, or whose peer cluster is down: its group's status, and the note for other groups."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from walferry.engine.counters import Counters
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.errors import PausedPeer
from walferry.replication.sinks.errors import PeerClusterUnreachable
from walferry.shipping import attempt as module
from walferry.shipping.attempt import Attempt


class Ending:
    """An attempt that ends with an error, or without one, and the notes for the run's other groups."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, backlog: bool = True) -> None:
        self.reported: list[str] = []
        self._counters = Counters(GroupSummary(group="g"))
        self._backlog = backlog
        monkeypatch.setattr(module, "note_down", lambda session, peer_id, run_id, text: self.reported.append(text))

    def end(self, error: Exception | None = None) -> GroupSummary:
        def run() -> None:
            if error is not None:
                raise error

        attempt = SimpleNamespace(
            _run=run, _counters=self._counters, _session=None, _job=SimpleNamespace(peer_id="p", run_id="run"),
            _gauges=SimpleNamespace(update=lambda: None), close=lambda: None, backlog=self._backlog,
        )  # fmt: skip
        Attempt.run(attempt)  # type: ignore[arg-type]
        return self._counters.summary()


@pytest.mark.parametrize("backlog", [False, True])
@pytest.mark.parametrize("answered", [False, True])
def test_a_peer_cluster_that_is_down_is_noted_and_told_to_the_other_groups(
    monkeypatch: pytest.MonkeyPatch, backlog: bool, answered: bool
) -> None:
    ending = Ending(monkeypatch, backlog=backlog)
    summary = ending.end(PeerClusterUnreachable("s", 0.0, 3, "refused", answered=answered))
    assert summary.status is Status.PEER_DOWN
    assert summary.error
    assert summary.error.startswith("peer cluster s has acknowledged nothing since")
    assert ("the next batch tries again" in summary.error) == backlog  # a replay has none
    assert ending.reported == ([] if answered else [summary.error])


def test_a_paused_peer_is_noted_and_other_errors_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    ending = Ending(monkeypatch)
    assert (ending.end(PausedPeer("p")).status, ending.reported) == (Status.PAUSED, [])
    with pytest.raises(ValueError, match="broken"):
        ending.end(ValueError("broken"))
    assert ending.end().status is Status.PAUSED
