"""Ratios to HBase's tools and CPU-seconds, within a quarter of an hour, beside those in bench/figures.json: what became slower?

    make bench-quick            measure, compare, print
    KEEP=1 make bench-quick     the same, and then write bench/figures.json, to be committed with what changed the figures

The stored figures are those of the last commit that changed bench/figures.json. bench.figures says when one counts as worse.

One pair of clusters runs all of it, one after the other:

 drains          a backlog of 284 MB in 4 regions, by HBase's replication, `direct` and `hfiles` through Spark Connect, and
                 WALPlayer with HFiles, in turns: see bench.drains
 verification    of the 1 M equal rows that the last drain has left, by VerifyReplication and through Spark Connect, in turns: see
                 bench.verification
 small batches   of 5 MB, through spark-submit and Spark Connect, in turns: see bench.start

No test looks at these figures: times of a machine on which other things run tell nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import start, verification
from bench.clusters import ROW_BYTES, Bench, Setup, bench
from bench.drains import HEADER, RULE, Drain, by_way, in_turn, times_as_fast, warm_up
from bench.figures import Figure, Machine, Outcome, report
from bench.replication import write_backlog
from bench.verification import Comparison
from bench.ways import HBASE, chosen
from bench.ways import ways as every_way

STORED = Path(__file__).with_name("figures.json")
WAL_PLAYER = "WALPlayer, HFiles"
OURS = ("direct", "hfiles")
VERIFICATIONS = (verification.HBASE, verification.CONNECT)
START_MEGABYTES = 5
A_GB = "CPU-seconds a GB"


@dataclass(frozen=True)
class Plan:
    """How much is measured. Rounds count after those to warm up."""

    rows: int = 1_000_000
    warm_up_rows: int = 100_000
    regions: int = 4
    rounds: int = 3
    verifications: int = 2


def measure(plan: Plan) -> tuple[Figure, ...]:
    """Start the clusters, run all of it, and return the figures."""
    ways = chosen(";".join((HBASE, *OURS, WAL_PLAYER)), every_way())
    with bench(Setup([way.peer for way in ways if way.peer], plan.regions)) as on:
        warm_up(on, write_backlog, ways, plan.warm_up_rows)
        print(f"{plan.rounds} rounds of {plan.rows:,} rows ({plan.rows * ROW_BYTES / 1e6:.0f} MB)\n{HEADER}\n{RULE}", flush=True)
        drains = [drain for i in range(plan.rounds) for drain in in_turn(on, write_backlog(on, plan.rows), ways, i)]
        verified = _verifications(on, plan)
        batches = _batches(on, plan)
    return (*of_drains(drains), *of_verifications(verified), *of_batches(batches))


def _verifications(on: Bench, plan: Plan) -> list[Comparison]:
    print(f"verification of {plan.rows:,} equal rows, the first round to warm up\n{verification.HEADER}", flush=True)
    sides = verification.sides_of(on, OURS[0])
    rounds = [verification.in_turn(sides, i, VERIFICATIONS) for i in range(1 + plan.verifications)]
    if rounds[0][0].counters["GOODROWS"] != plan.rows:
        raise RuntimeError(f"the tables should be equal: {rounds[0][0].counters}")
    return [comparison for each in rounds[1:] for comparison in each]


def _batches(on: Bench, plan: Plan) -> list[start.Batch]:
    print(f"batches of {START_MEGABYTES} MB, the first round to warm up", flush=True)
    rows = int(START_MEGABYTES * 1e6 / ROW_BYTES)
    rounds = [start.one_round(on, rows, i, peer=OURS[0]) for i in range(1 + plan.rounds)]
    return [batch for each in rounds[1:] for batch in each]


def of_drains(drains: Sequence[Drain]) -> list[Figure]:
    """The figures of drains: how many times as fast ours are, CPU-seconds a GB of all, and seconds."""
    by = by_way(drains)

    def a_gb(way: str, what: str, cpu: Callable[[Drain], float]) -> Figure:
        return _figure(f"{way}: {what}", A_GB, [drain.a_gb(cpu(drain)) for drain in by[way]], ours=way in OURS)

    return [
        *(_ratio(f"{way} beside {HBASE}", times_as_fast(by[HBASE], by[way])) for way in OURS),
        _ratio(f"hfiles beside {WAL_PLAYER}", times_as_fast(by[WAL_PLAYER], by["hfiles"])),
        *(a_gb(way, "whole job", lambda drain: drain.took.job_cpu) for way in by if way != HBASE),
        *(a_gb(way, "the processes that ship", lambda drain: drain.took.own_cpu) for way in (*OURS, HBASE)),
        *(a_gb(way, "the peer cluster's RegionServers", lambda drain: drain.peer_cpu) for way in by),
        *(_seconds(f"{way}: start to end", [drain.took.whole for drain in by[way]], ours=way in OURS) for way in by),
    ]


def of_verifications(done: Sequence[Comparison]) -> list[Figure]:
    """The figures of verifications beside VerifyReplication."""
    by = {way: verification.of_way(done, way) for way in VERIFICATIONS}

    def cpu(name: str, way: str, of: Callable[[Comparison], float]) -> Figure:
        return _figure(name, "CPU-seconds", [of(each) for each in by[way]], ours=way != verification.HBASE)

    return [
        _ratio("verification beside VerifyReplication", verification.times_as_fast(done, *VERIFICATIONS)),
        cpu("verification: whole job", verification.CONNECT, lambda each: each.job_cpu),
        cpu("VerifyReplication: whole job", verification.HBASE, lambda each: each.job_cpu),
        cpu("verification: RegionServers of both clusters", verification.CONNECT, lambda each: each.servers_cpu),
        cpu("VerifyReplication: RegionServers of both clusters", verification.HBASE, lambda each: each.servers_cpu),
        _seconds("verification: start to end", [each.seconds for each in by[verification.CONNECT]]),
        _seconds("VerifyReplication: start to end", [each.seconds for each in by[verification.HBASE]], ours=False),
    ]


def of_batches(batches: Sequence[start.Batch]) -> list[Figure]:
    """The figures of small batches: Spark Connect beside spark-submit, and the CPU-seconds of each."""
    submitted, connect = ([batch for batch in batches if batch.by == way] for way in start.WAYS)
    ratios = [theirs.seconds / ours.seconds for theirs, ours in zip(submitted, connect, strict=True)]
    return [
        _ratio("batch of 5 MB: Connect beside spark-submit", ratios),
        _figure("batch of 5 MB: Connect", "CPU-seconds", [batch.cpu + batch.server_cpu for batch in connect]),
        _figure("batch of 5 MB: spark-submit", "CPU-seconds", [batch.cpu for batch in submitted]),
        _seconds("batch of 5 MB: Connect, start to end", [batch.seconds for batch in connect]),
        _seconds("batch of 5 MB: spark-submit, start to end", [batch.seconds for batch in submitted]),
    ]


def _ratio(name: str, rounds: Sequence[float]) -> Figure:
    return Figure(name, "times as fast", _kept(rounds), larger_is_better=True)


def _figure(name: str, unit: str, rounds: Sequence[float], *, ours: bool = True) -> Figure:
    return Figure(name, unit, _kept(rounds), larger_is_better=False, ours=ours)


def _seconds(name: str, rounds: Sequence[float], *, ours: bool = True) -> Figure:
    return Figure(name, "s", _kept(rounds), larger_is_better=False, compared=False, ours=ours)


def _kept(rounds: Sequence[float]) -> tuple[float, ...]:
    """As many digits as mean something."""
    return tuple(round(value, 3) for value in rounds)


def stored() -> tuple[str, Outcome] | None:
    """Return the last commit that changed the stored figures, in a few words, and the figures; None if there are none."""
    commit = _git("log", "-1", "--format=%h of %cs, %s", "--", STORED.name)
    return (commit, Outcome.from_json(_git("show", f"{commit.split()[0]}:./{STORED.name}"))) if commit else None


def _git(*words: str) -> str:
    """What git prints: nothing outside of a repository."""
    return subprocess.run(["git", "-C", STORED.parent, *words], stdout=subprocess.PIPE, text=True).stdout.strip()


def main() -> None:
    """Measure, compare, print, and keep the figures if that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", action="store_true", help=f"write the figures to bench/{STORED.name}")
    keep = parser.parse_args().keep
    machine, before, began = Machine.here(), stored(), time.monotonic()
    if machine.busy:
        print(f"This machine is busy ({machine}): the figures will mean little. Better end what else runs, and begin again.\n")
    print(f"beside the figures of commit {before[0]}" if before else "nothing is stored yet to compare with", flush=True)
    outcome = Outcome(machine, measure(Plan()))
    print(f"\n{report(before and before[1], outcome)}\n\n{(time.monotonic() - began) / 60:.0f} minutes")
    if keep:
        STORED.write_text(outcome.to_json())
        print(f"bench/{STORED.name} has the new figures: commit it with what changed them")


if __name__ == "__main__":
    main()
