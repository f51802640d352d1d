"""The DAG replicate_peer, run by Airflow itself; ZooKeeper and the Spark job are stubs here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, ParamValidationError

from walferry.airflow.hooks.spark import WalferrySubmitHook
from walferry.airflow.operators.ship_wals import ShipWalsOperator
from walferry.airflow.operators.spark_job import STARTUP_SECONDS
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.errors import EnabledPeer, PausedPeer
from walferry.replication.locks.peer_lock import PeerLocked
from walferry.replication.queues.errors import LeaseHeld
from walferry.runs.steps import batch
from walferry.runs.values import ChosenPeers, Planned, RollReport

from .conftest import Run
from .submitted_jobs import job_in

ENABLED = EnabledPeer("p", "it is ENABLED, so its RegionServers ship it themselves", "Disable it")
DONE = GroupSummary(group="g1", server="s1", status=Status.DONE, shippedOps=7)


@dataclass
class Cluster:
    """The answers of the stubs, and the requests that they got."""

    managed: list[str] = field(default_factory=lambda: ["p"])
    refused: list[str] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    down: dict[str, str] = field(default_factory=dict)  # peer clusters that are down, and why
    elsewhere: list[str] = field(default_factory=list)  # peers that another run holds when they should be shipped
    paused: list[str] = field(default_factory=list)  # peers that were paused after planning
    unrolled: dict[str, str] = field(default_factory=dict)
    recovering: dict[str, list[str]] = field(default_factory=dict)  # peers with groups held by recoveries: their other groups
    left: list[GroupSummary] = field(default_factory=lambda: [DONE])  # the summaries that a job leaves
    job_fails: int = 0  # how many times the job fails
    rolls: list[list[str]] = field(default_factory=list)
    commands: list[list[str]] = field(default_factory=list)
    timeouts: list[float] = field(default_factory=list)
    held: list[str] = field(default_factory=list)  # rights to ship, as they are taken and given up
    leads: dict[str, str] = field(default_factory=dict)  # peers whose files are made with those of another
    emptied: list[str] = field(default_factory=list)  # peers whose files are all made by another peer's job

    def choose(self, source: object, asked: str | None) -> ChosenPeers:
        return ChosenPeers([asked] if asked else self.managed, [], 0.0)

    def roll(self, source: object, peers: list[str]) -> RollReport | None:
        mine = [peer for peer in peers if peer not in self.refused]
        self.rolls.append(mine)
        return RollReport.of(2, self.unrolled) if mine else None

    def plan(self, source: object, peer: str, attempt: str, run: str, chosen: ChosenPeers | None) -> Planned:
        if peer in self.refused:
            raise ENABLED
        groups = 0 if peer in self.idle else 1
        return Planned(attempt, peer, groups=groups, wals=groups, bytes=100 * groups, oldest=1, held=int(peer in self.recovering))

    def not_held(self, source: object, peer: str, shipped: Collection[str]) -> list[str]:
        return self.recovering[peer]

    @contextmanager
    def holding_peer(self, source: object, planned: Planned, run: str) -> Iterator[None]:
        if planned.peer in self.elsewhere:
            raise PeerLocked(planned.peer, "run scheduled__1 on host h", "12:00")
        self.held.append(f"{run} takes {planned.peer}")
        try:
            yield
        finally:
            self.held.append(f"{run} gives up {planned.peer}")

    def joining(self, source: object, peer: str, sink: object) -> list[str]:
        return [other for other, lead in self.leads.items() if lead == peer]

    @contextmanager
    def holding_with(self, source: object, peer: str, run: str, others: Iterable[str]) -> Iterator[list[str]]:
        yield [other for other in others if other not in self.elsewhere]

    def lead_of(self, source: object, peer: str, sink: object) -> str | None:
        return self.leads.get(peer)

    def shipped_whole(self, source: object, planned: Planned) -> set[str]:
        return {"g1"} if planned.peer in self.emptied and self.commands else set()

    def why_down(self, source: object, peer: str) -> str | None:
        return self.down.get(peer)

    def why_paused(self, source: object, peer: str) -> str | None:
        return str(PausedPeer(peer)) if peer in self.paused else None

    def summaries(self, source: object, peer: str, *_: object) -> list[GroupSummary]:
        return self.left if self.commands and peer not in (*self.idle, *self.down) else []

    def submit(self, hook: WalferrySubmitHook, application: str) -> None:
        self.commands.append(hook._build_spark_submit_command(application))
        if len(self.commands) <= self.job_fails:
            raise AirflowException("spark-submit ended with 1")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, source_conn: None) -> Cluster:
    cluster = Cluster()
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    stubs = (
        "choose",
        "roll",
        "plan",
        "holding_peer",
        "holding_with",
        "joining",
        "lead_of",
        "shipped_whole",
        "why_down",
        "why_paused",
    )
    for name in (*stubs, "summaries", "not_held"):
        monkeypatch.setattr(batch, name, getattr(cluster, name))
    monkeypatch.setattr(batch, "for_job", lambda source, *_: source)
    monkeypatch.setattr(batch, "after_lead", lambda source, planned, *_: planned)
    monkeypatch.setattr(WalferrySubmitHook, "submit", lambda hook, application="": cluster.submit(hook, application))
    execute = ShipWalsOperator.execute

    def execute_and_note(operator: ShipWalsOperator, context: Any) -> None:
        cluster.timeouts.append(operator.execution_timeout.total_seconds())
        execute(operator, context)

    monkeypatch.setattr(ShipWalsOperator, "execute", execute_and_note)
    return cluster


@pytest.fixture
def run(replicate_peer: Callable[..., Run], cluster: Cluster) -> Callable[..., Run]:
    return replicate_peer


def test_each_managed_peer_has_a_branch_and_a_peer_in_a_wrong_state_stops_only_its_own(run, cluster):
    cluster.managed, cluster.refused, cluster.idle = ["busy", "enabled", "idle"], ["enabled"], ["idle"]
    ended = run()
    assert ended.state == "failed"
    steps = ("plan", "ship", "report")
    states = {label: [ended.tasks.get((f"peer.{step}", label)) for step in steps] for label in ("busy", "idle", "enabled")}
    assert states["busy"] == ["success", "success", "success"]
    assert states["idle"] == ["success", "skipped", "success"]
    assert states["enabled"] == ["failed", None, "failed"]
    assert ended.tries["peer.plan", "enabled"] == 1
    assert ended.tasks["peer.ship", "1"] == "upstream_failed"
    assert ended.reports["enabled"]["failures"] == [str(ENABLED)]
    assert ended.reports["busy"]["totals"]["shippedOps"] == 7
    assert ended.reports["idle"]["ok"]
    assert len(cluster.commands) == 1
    assert cluster.rolls == [["busy", "idle"]]  # one roll for all peers
    run_id = f"replicate_peer/{ended.run_id}"
    assert cluster.held == [f"{run_id} takes busy", f"{run_id} gives up busy"]


@pytest.fixture
def begun_by(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`begun_by(payload, …)`: events of the asset's watcher that begin the next run."""

    def begin(*payloads: object) -> None:
        events = [SimpleNamespace(extra={"payload": payload}) for payload in payloads]
        monkeypatch.setattr("walferry.airflow.tasks.batch.events_of", lambda _: events)

    return begin


def test_a_run_that_closed_wals_have_begun_ships_their_peers_and_does_not_roll(run, cluster, begun_by):
    cluster.managed = ["a", "b", "c"]
    begun_by({"peers": {"a": 2, "gone": 1}, "roll": False}, {"peers": {"c": 1}, "roll": False})
    ended = run()
    assert ended.state == "success"
    assert sorted(ended.reports) == ["a", "c"]
    assert cluster.rolls == []


def test_a_run_in_which_servers_are_to_roll_rolls_for_all_peers_and_ships_those_that_were_announced(run, cluster, begun_by):
    cluster.managed = ["a", "b"]
    begun_by({"peers": {"b": 0}, "roll": True})
    ended = run()
    assert cluster.rolls == [["a", "b"]]
    assert list(ended.reports) == ["b"]
    begun_by({"peers": {}, "roll": True})  # another run ships all of them
    assert (run().state, cluster.rolls[1:]) == ("success", [["a", "b"]])
    assert len(cluster.commands) == 1


def test_without_managed_peers_a_run_does_nothing_and_is_a_success(run, cluster):
    cluster.managed = []
    ended = run()
    assert ended.state == "success"
    assert cluster.commands == []


def test_a_named_peer_is_the_only_one_and_the_deadline_bounds_job_and_task(run, cluster):
    cluster.managed = ["a", "b"]
    ended = run(peer="c", deadline=60, roll=False)
    assert ended.state == "success"
    assert list(ended.reports) == ["c"]
    assert cluster.rolls == []
    command = cluster.commands[0]
    assert job_in(command).peer_id == "c"
    assert 59 < job_in(command).deadline <= 60
    assert job_in(command).run_id == f"replicate_peer/{ended.run_id}.1"  # other DAGs may have runs of this id
    assert cluster.timeouts == [60 + STARTUP_SECONDS]


@pytest.mark.parametrize(("params", "absent"), [({}, False), ({"master": "required"}, False), ({"master": "absent"}, True)])
def test_only_a_run_that_is_told_so_goes_without_an_hmaster(run, cluster, params, absent):
    assert run(peer="p", **params).state == "success"
    assert job_in(cluster.commands[0]).source.master_absent is absent


def test_what_lies_in_closed_wals_is_shipped_although_a_server_was_not_rolled(run, cluster):
    cluster.unrolled = {"s2": "no answer"}
    ended = run()
    assert ended.state == "failed"
    assert ended.tasks["peer.ship", "p"] == "success"
    assert (ended.tasks["roll", None], ended.tries["roll", None]) == ("failed", 1)
    assert ended.reports["p"]["failures"] == ["roll of s2: no answer"]


def test_a_failed_queue_fails_the_run_although_the_job_itself_has_ended(run, cluster):
    cluster.left = [DONE, GroupSummary(group="g2", server="s2", status=Status.FAILED, error="table t does not exist")]
    ended = run()
    assert ended.state == "failed"
    assert ended.tasks["peer.ship", "p"] == "success"
    assert ended.reports["p"]["failures"] == ["s2 g2: failed: table t does not exist"]


def test_a_job_that_its_deadline_has_ended_is_gone_on_with_by_the_next_batch(run, cluster):
    cluster.left = [GroupSummary(group="g1", server="s1", status=Status.DEADLINE)]
    assert run().state == "success"


def test_a_queue_that_another_run_holds_fails_the_run_and_names_the_holder(run, cluster):
    held = LeaseHeld("p", "g1", "run manual__1 on host h", "12:00")
    cluster.left = [GroupSummary(group="g1", status=Status.HELD, error=str(held))]
    ended = run()
    assert ended.state == "failed"
    assert "held by run manual__1 on host h" in ended.reports["p"]["failures"][0]


def test_a_job_that_fails_again_is_in_the_report(run, cluster):
    cluster.job_fails = 2
    ended = run()
    assert ended.state == "failed"
    assert ended.reports["p"]["failures"] == ["ship is failed: see the log of the Spark job there"]


@pytest.mark.parametrize(
    "params",
    [{"deadline": 0}, {"deadline": "soon"}, {"peer": "p-s1"}, {"roll": "maybe"}, {"source_conn_id": ""}, {"master": "gone"}],
    ids=str,
)
def test_a_parameter_that_cannot_be_is_refused(run, params):
    with pytest.raises((ParamValidationError, ValueError)):
        run(**params)
