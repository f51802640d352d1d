"""The view that a user asks for by the page's address."""

from __future__ import annotations

import pytest

from walferry.airflow.page.asked import Filters, asked


@pytest.mark.parametrize(
    "params",
    [{"page": "-1"}, {"page": "9" * 5000}, {"page": "٣"}, {"size": "1000000"}, {"size": "x"}, {"kind": "odd"}, {"order": "'"}],
    ids=str,
)
def test_an_address_that_makes_no_sense_asks_for_the_usual(params: dict[str, str]) -> None:
    assert asked(params) == Filters()


def test_a_query_says_only_what_is_not_usual() -> None:
    wanted = asked({"source": "a&b", "page": "3", "kind": "recovered"})
    assert wanted.query() == "?source=a%26b&kind=recovered"
    assert asked({"source": "a&b", "kind": "recovered", "page": "4"}) == Filters(**{**vars(wanted), "page": 4})
    assert wanted.query(page=4) == "?source=a%26b&kind=recovered&page=4"
