"""The figures of the quick benchmark: kept as text, and compared with those that were kept before."""

from __future__ import annotations

import pytest

from bench.figures import Figure, Machine, Outcome, report, verdicts

MACHINE = Machine(cores=4, load=0.5)


def times(name: str, *rounds: float) -> Figure:
    return Figure(name, "times as fast", rounds, larger_is_better=True)


def cpu(name: str, *rounds: float, ours: bool = True) -> Figure:
    return Figure(name, "CPU-seconds a GB", rounds, larger_is_better=False, ours=ours)


def said(stored: Figure, now: Figure) -> list[str]:
    return verdicts(Outcome(MACHINE, (stored,)), Outcome(MACHINE, (now,)))


def row(text: str, name: str) -> str:
    (found,) = [line for line in text.splitlines() if line.startswith(name)]
    return found


def test_a_figure_is_the_median_of_its_rounds():
    assert times("direct beside HBase", 9.0, 1.0, 2.0).value == 2.0


def test_what_became_worse_is_said_with_both_figures_and_by_how_much():
    assert said(times("direct beside HBase", 2.4), times("direct beside HBase", 1.5)) == [
        "WORSE: direct beside HBase: 1.50 times as fast, before 2.40. That is worse by 1.60 times."
    ]
    assert said(cpu("hfiles, whole job", 30.0), cpu("hfiles, whole job", 45.0)) == [
        "WORSE: hfiles, whole job: 45.0 CPU-seconds a GB, before 30.0. That is worse by 1.50 times."
    ]


@pytest.mark.parametrize("now", [1.9, 2.4, 3.0])
def test_a_difference_within_the_noise_is_not_called_anything(now: float):
    assert said(times("direct beside HBase", 2.4), times("direct beside HBase", now)) == []


def test_a_figure_that_one_of_the_stored_rounds_reached_is_not_worse():
    stored = times("direct beside HBase", 1.5, 2.4, 2.6)

    assert said(stored, times("direct beside HBase", 1.6)) == []
    assert said(stored, times("direct beside HBase", 1.4))


def test_one_good_round_does_not_hide_that_the_median_became_worse():
    assert said(times("direct beside HBase", 2.3, 2.4, 2.6), times("direct beside HBase", 1.4, 1.5, 2.5))


def test_what_became_better_is_said_so_that_it_is_kept():
    assert said(cpu("hfiles, whole job", 30.0), cpu("hfiles, whole job", 15.0)) == [
        "better: hfiles, whole job: 15.0 CPU-seconds a GB, before 30.0. That is better by 2.00 times."
    ]


@pytest.mark.parametrize("now", [40.0, 160.0])
def test_a_change_of_hbases_own_figures_is_one_of_the_machine(now: float):
    assert said(cpu("HBase, peer cluster", 80.0, ours=False), cpu("HBase, peer cluster", now, ours=False)) == [
        f"The machine differs: HBase, peer cluster: {now:.1f} CPU-seconds a GB, before 80.0. HBase has not changed, so compare "
        "figures in CPU-seconds with care."
    ]


def test_seconds_depend_on_the_machine_and_are_shown_without_a_ratio():
    stored, now = (
        Outcome(MACHINE, (Figure("direct", "s", (seconds,), larger_is_better=False, compared=False),)) for seconds in (8.0, 20.0)
    )

    assert verdicts(stored, now) == []
    assert row(report(stored, now), "direct").split()[1:] == ["s", "8.00", "20.0", "-"]


def test_the_table_has_the_ratio_of_the_new_figure_to_the_stored_one():
    stored, now = Outcome(MACHINE, (cpu("hfiles, whole job", 30.0),)), Outcome(MACHINE, (cpu("hfiles, whole job", 33.0),))

    assert row(report(stored, now), "hfiles, whole job").split()[-3:] == ["30.0", "33.0", "1.10"]


def test_a_figure_of_one_side_only_stays_in_the_table():
    table = report(Outcome(MACHINE, (times("old", 2.0),)), Outcome(MACHINE, (times("new", 3.0),)))

    assert row(table, "old").split()[-3:] == ["2.00", "-", "-"]
    assert row(table, "new").split()[-3:] == ["-", "3.00", "-"]


def test_a_figure_whose_unit_has_changed_is_not_compared():
    assert said(times("direct", 2.0), cpu("direct", 30.0)) == []


def test_without_stored_figures_there_are_only_the_new_ones():
    said = report(None, Outcome(Machine(cores=4, load=9.3), (times("new", 3.0),)))

    assert row(said, "new").split()[-3:] == ["-", "3.00", "-"]
    assert "The stored figures" not in said
    assert "This machine was busy" in said


def test_if_nothing_became_worse_it_says_so():
    same = Outcome(MACHINE, (times("direct beside HBase", 2.4),))

    assert "Nothing became worse" in report(same, same)
    assert "Nothing became worse" not in report(same, Outcome(MACHINE, (times("direct beside HBase", 1.0),)))


def test_a_machine_is_busy_from_a_load_of_half_its_cores_on():
    assert not Machine(cores=4, load=2.0).busy
    assert Machine(cores=4, load=2.1).busy


def test_a_busy_machine_is_named_at_either_time():
    idle, busy = Outcome(MACHINE, ()), Outcome(Machine(cores=4, load=9.3), ())

    assert "This machine was busy" in report(idle, busy)
    assert "load average 9.3 on 4 cores" in report(idle, busy)
    assert "The stored figures are from a busy machine" in report(busy, idle)
    assert "busy" not in report(idle, idle)


def test_another_number_of_cores_is_named():
    assert "2 cores, and this machine has 4" in report(Outcome(Machine(cores=2, load=0), ()), Outcome(MACHINE, ()))


def test_an_outcome_is_the_same_when_it_is_read_again():
    outcome = Outcome(MACHINE, (times("direct beside HBase", 2.4, 2.5), cpu("HBase, peer cluster", 80.0, ours=False)))

    assert Outcome.from_json(outcome.to_json()) == outcome


def test_the_text_tells_a_reader_the_value_and_which_way_is_better():
    text = Outcome(MACHINE, (times("direct beside HBase", 2.4, 2.6),)).to_json()

    assert '"value": 2.5' in text
    assert '"larger_is_better": true' in text
    assert len(text.splitlines()) == 4, "a line a figure"
