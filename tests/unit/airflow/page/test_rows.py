"""Which queues the page shows, and how quickly."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.growth import LINEAR, growth
from tests.unit.airflow.page.pages import Parsed, browser, parsed, shown_source
from tests.unit.observe.status.views import DEAD, HOUR, MINUTE, NOW, SERVER, note, peer, queue, view, wal
from walferry.airflow.page.sources import ShownSource
from walferry.engine.summary import Status
from walferry.hbase.errors import PositionError
from walferry.observe.status.describing import describe
from walferry.observe.status.notes import GroupNotes, Notes
from walferry.observe.status.view import Holder


def server(number: int) -> str:
    return f"rs-{number:04}.example.org,16020,1700000000001"


def many(queues: int, wals: int = 2) -> ShownSource:
    """Queues of peer p: the one of server N lags N minutes and an hour."""
    every = [
        queue(*(wal(NOW - HOUR - number * MINUTE + at, server=server(number)) for at in range(wals)), server=server(number))
        for number in range(queues)
    ]
    return shown_source(describe(view(*every)))


def servers(page: Parsed) -> list[str]:
    """The servers in the table of queues, row by row."""
    names = [text for text in page.texts if re.fullmatch(r"rs-\d+\.example\.org,16020,\d+", text)]
    return list(dict.fromkeys(names))


def ask(of: ShownSource, **params: str) -> Parsed:
    with browser(of) as client:
        return parsed(client.get("/replication", params=params).text)


def test_the_longest_lag_comes_first_and_unknown_lag_before_it() -> None:
    assert servers(ask(many(120)))[:2] == [server(119), server(118)]
    odd = queue(server=server(500), problems=("no WAL's name",))
    assert servers(ask(shown_source(describe(view(odd, queue(wal(NOW - HOUR)))))))[0] == server(500)


def test_pages_follow_one_another_and_leave_out_nothing() -> None:
    of = many(120)
    seen = [name for number in ("1", "2", "3") for name in servers(ask(of, page=number))]
    assert seen == [server(number) for number in reversed(range(120))]


def test_a_page_that_is_not_there_is_the_last_one() -> None:
    assert "WAL groups 101 to 120 of 120" in ask(many(120), page="99").text
    assert "WAL groups 101 to 120 of 120" in ask(many(120), page="3").text


def test_a_name_is_searched_in_servers_queues_and_wals() -> None:
    page = ask(many(120), text=" RS-0042 ")
    assert servers(page) == [server(42)]
    assert "WAL groups 1 to 1 of 1, filtered from 120" in page.text


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, {"normal", "recovered", "gone"}),
        ({"kind": "normal"}, {"normal", "gone"}),
        ({"kind": "recovered"}, {"recovered"}),
        ({"kind": "orphaned"}, {"gone"}),
        ({"peer": "p"}, {"normal", "recovered"}),
        ({"state": "shipping"}, {"normal"}),
        ({"state": "failing"}, {"recovered"}),
        ({"state": "unknown"}, {"gone"}),
        ({"kind": "recovered", "state": "shipping"}, set()),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)
def test_filters(params: dict[str, str], expected: set[str]) -> None:
    normal, recovered = queue(wal(NOW - HOUR)), queue(wal(NOW - HOUR, server=DEAD), queue_id=f"p-{DEAD}", live=False)
    odd = PositionError("/rs/q/w", "it is odd")
    gone = queue(wal(NOW - HOUR, odd, server=server(7)), queue_id="gone", server=server(7))
    held = {("p", normal.wals[0].name.group): Holder("batch", "")}
    failed = Notes({("p", recovered.wals[0].name.group): GroupNotes((note(Status.FAILED, error="no"),))})
    page = ask(shown_source(describe(view(normal, recovered, gone, leases=held, notes=failed))), **params)
    table = page.text[page.text.index("WAL groups") :] if "WAL groups" in page.text else ""
    found = {"normal": f"Normal of peer p {SERVER}", "recovered": "Recovered of peer p", "gone": "there is no peer gone"}
    assert {name for name, text in found.items() if text in table} == expected


def test_another_source_is_shown_by_its_name_and_only_listed_ones_are_looked_at() -> None:
    first, second = many(1), shown_source(describe(view(queue(wal(NOW - HOUR), queue_id="q"), peers=(peer("q"),))), "second")
    with browser(first, second) as client:
        assert "Normal of peer q" in parsed(client.get("/replication?source=second").text).text
        assert "Normal of peer q" not in parsed(client.get("/replication?source=elsewhere").text).text


@pytest.mark.slow
@pytest.mark.parametrize("params", [{}, {"page": "2"}, {"text": "rs-0099"}, {"size": "200", "order": "left"}])
def test_a_thousand_queues_of_a_hundred_wals_are_a_short_page_in_a_time_in_proportion(params: dict[str, str]) -> None:
    def shown(queues: int) -> Callable[[], None]:
        of = many(queues, 100)

        def show() -> None:
            with browser(of) as client:
                answer = client.get("/replication", params=params)
            assert answer.status_code == 200
            assert len(answer.content) < 1 << 20

        return show

    assert growth(shown, 1000) < LINEAR
