"""The plot of the last day."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.airflow.page.pages import LAST, sample
from tests.unit.observe.status.views import HOUR, MINUTE, NOW
from walferry.airflow.page.plots import HEIGHT, WIDTH, Limit, plot_of
from walferry.observe.status.ages import Certainty
from walferry.observe.status.history import INTERVAL_SECONDS, SAMPLES

AT = NOW / 1000
DAY_SECONDS = 24 * 3600


def test_nothing_is_drawn_of_a_day_without_samples() -> None:
    assert plot_of((), AT) is None
    assert plot_of([sample(SAMPLES), sample(-1)], AT) is None


def test_each_sample_has_the_place_of_its_time() -> None:
    lag, _ = plot_of([sample(SAMPLES - 1, HOUR), sample(0, HOUR // 2)], AT).curves  # type: ignore[union-attr]
    first, last = (line.points.split() for line in lag.lines)
    assert (first, last) == (["0,2.0", "1,2.0"], [f"{WIDTH - 1},25.0", f"{WIDTH},25.0"])
    assert (lag.top, HEIGHT) == ("1 h", 48)


def test_what_a_lag_should_stay_below_is_a_line_and_both_fit() -> None:
    lag, shipped = plot_of([sample(0, HOUR)], AT, max_lag=2 * 3600).curves  # type: ignore[union-attr]
    assert (lag.limit, lag.top) == (Limit(2.0, "2 h"), "1 h")
    assert lag.lines[0].points.startswith(f"{WIDTH - 1},25.0")
    assert shipped.limit is None
    lag, _ = plot_of([sample(0, HOUR)], AT, max_lag=1800).curves  # type: ignore[union-attr]
    assert lag.limit == Limit(25.0, "30 min")


def test_a_gap_and_what_is_not_known_break_the_curve() -> None:
    day = [sample(9), sample(8), sample(6), sample(5, None), sample(4)]
    lag, _ = plot_of(day, AT).curves  # type: ignore[union-attr]
    starts = [int(line.points.split(",")[0]) for line in lag.lines]
    assert starts == [WIDTH - 10, WIDTH - 7, WIDTH - 5]
    assert lag.unknown == (WIDTH - 6,)


def test_what_is_not_exact_is_drawn_in_another_way() -> None:
    day = [sample(2), sample(1, MINUTE, certainty=Certainty.AT_MOST), sample(0)]
    lag, shipped = plot_of(day, AT).curves  # type: ignore[union-attr]
    assert [line.bound for line in lag.lines] == [False, True, False]
    assert [line.bound for line in shipped.lines] == [False]


def test_a_day_of_which_nothing_is_known_says_so() -> None:
    lag, shipped = plot_of([sample(0, None, None)], AT).curves  # type: ignore[union-attr]
    assert "not known in any of 1 samples" in lag.words
    assert not shipped.lines


def test_the_hours_are_those_of_the_clock() -> None:
    plot = plot_of([sample(0)], AT)
    assert [tick.label for tick in plot.ticks] == ["12:00", "18:00", "00:00", "06:00"]  # type: ignore[union-attr]
    assert LAST * 300 == AT


@pytest.mark.parametrize(("minutes", "late"), [(10, True), (3 * 60, True), (4 * 60, False)])
def test_a_label_at_the_right_border_stands_before_its_tick(minutes: int, late: bool) -> None:
    six_o_clock = AT // DAY_SECONDS * DAY_SECONDS + 6 * 3600
    shown = replace(sample(0), interval=int(six_o_clock) // INTERVAL_SECONDS)
    plot = plot_of([shown], six_o_clock + minutes * 60)
    assert plot
    assert (plot.ticks[-1].label, [tick.late for tick in plot.ticks]) == ("06:00", [False] * 3 + [late])
