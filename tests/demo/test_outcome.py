"""The demo says that both sides are equal only if they are."""

from __future__ import annotations

import pytest

from demo import outcome
from embedded import wire
from embedded.client import GLOBAL, LOCAL


@pytest.fixture
def both(standalone_pair, java_client, unique):
    """A table with one row on both sides, of its GLOBAL family; the source has the LOCAL one too."""
    source, peer_cluster = (java_client(cluster.address) for cluster in standalone_pair)
    tables = {unique("t"): {"g": GLOBAL, "l": LOCAL}}
    for client in (source, peer_cluster):
        for name, scopes in tables.items():
            client.create_table(name, scopes)
    (name,) = tables
    source.write(name, [wire.put("r", {"g:a": b"v", "l:a": b"v"}, timestamp=1)])
    peer_cluster.write(name, [wire.put("r", {"g:a": b"v"}, timestamp=1)])
    return source, peer_cluster, tables


def test_what_was_replicated_as_it_should_be_holds(both):
    holds, lines = outcome.compare(*both)

    assert holds
    assert lines[2].split() == [*both[2], "g", "GLOBAL", "1", "1", "same,", "cell", "by", "cell"]
    assert lines[3].split() == [*both[2], "l", "LOCAL", "1", "0", "not", "replicated"]


@pytest.mark.parametrize(
    ("edit", "reported"),
    [
        (wire.put("r", {"g:a": b"other"}, timestamp=1), "another value: r/g:a/1/Put"),
        (wire.delete_row("r"), "only in the first: r/g:a/1/Put"),
        (wire.put("r", {"l:a": b"v"}, timestamp=1), "WRONG"),
    ],
)
def test_what_should_not_be_on_the_peer_cluster_is_told(both, edit, reported):
    source, peer_cluster, tables = both
    (name,) = tables
    peer_cluster.write(name, [edit])

    holds, lines = outcome.compare(source, peer_cluster, tables)

    assert not holds
    assert reported in "\n".join(lines)


def test_nothing_on_both_sides_does_not_hold(both):
    source, peer_cluster, tables = both
    (name,) = tables
    for client in (source, peer_cluster):
        client.empty_table(name)

    assert not outcome.compare(source, peer_cluster, tables)[0]


def test_a_batch_that_failed_is_told_with_its_reason():
    totals = dict.fromkeys(outcome.COLUMNS, 1234)
    report = {
        "totals": {**totals, "cellsFiltered": 7, "filteredByReason": {"not_global": 8, "namespaces": 9}},
        "failures": ["the peer cluster is gone"],
    }

    lines = outcome.shipped([("manual", report)])

    assert lines[2].split() == ["manual", *["1,234"] * 7]
    assert lines[3:] == [
        "  left out by manual: whole entries: 8; cells of others: 7 (their families are LOCAL, and so are not replicated)",
        "  left out by manual: 9 entries (namespaces)",
        "  FAILED in manual: the peer cluster is gone",
    ]


def test_a_batch_that_had_nothing_to_do_is_no_row_of_zeros():
    idle = {"totals": {**dict.fromkeys(outcome.COLUMNS, 0), "cellsFiltered": 0, "filteredByReason": {}}, "failures": []}

    assert outcome.shipped([("scheduled", idle)]) == ["  nothing was left to ship"]
