"""Cells with visibility labels between two real clusters whose label tables give the same labels other ordinals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from embedded import wire
from embedded.client import LOCAL, JavaClient, JavaClientError
from embedded.processes import wait_until
from embedded.standalone import StandaloneCluster
from tests.cluster.conftest import Sides
from tests.cluster.walferry_runs import ship_one, source_of
from walferry.engine.summary import Status

CONTROLLER = "org.apache.hadoop.hbase.security.visibility.VisibilityController"
SETTINGS = {
    "hbase.security.authorization": "true",
    "hbase.coprocessor.master.classes": CONTROLLER,
    "hbase.coprocessor.region.classes": CONTROLLER,
}
ODD = 'größe "a\\b" & co'
QUOTED = '"größe \\"a\\\\b\\" & co"'  # in the form that an expression needs
LABELS = ("secret", "public", "internal", ODD)
USERS = {"ann": ("secret", "public"), "bob": ("public",), "eve": (), "odd": (ODD, "internal")}


@pytest.fixture(scope="module")
def sides(cluster_folder: Path, java_client: Callable[..., JavaClient]) -> Iterator[Sides]:
    """Two clusters with the VisibilityController; `west` has added the labels in the opposite order."""
    folder = cluster_folder / "labels"
    east, west = clusters = [StandaloneCluster(folder / name, SETTINGS, name=name) for name in ("east", "west")]
    try:
        for cluster in clusters:
            cluster.launch()
        for cluster in clusters:
            cluster.await_ready()
        here, there = java_client(east.address), java_client(west.address)
        for client, labels in ((here, LABELS), (there, LABELS[::-1])):
            client.add_labels(labels)
            for user, auths in USERS.items():
                client.set_auths(user, auths) if auths else None
        for cluster, client in ((east, here), (west, there)):
            await_labels(cluster, client)
        yield Sides(east, west, here, there, source_of(east.address))
    finally:
        for cluster in clusters:
            cluster.kill()


def await_labels(cluster: StandaloneCluster, client: JavaClient) -> None:
    """Wait until the server knows labels and users. It learns of them through ZooKeeper, a moment after the call."""
    table, quoted = "labels", [QUOTED if label == ODD else label for label in LABELS]
    client.create_table(table, {"f": LOCAL})

    def known() -> bool:
        cells = [labelled(label, wire.put("row", {f"f:{n}": b"v"})) for n, label in enumerate(quoted)]
        return is_written(client, table, cells) and all(
            len(client.scan_as(user, table)) == len(auths) for user, auths in USERS.items()
        )

    wait_until(known, "labels and users are known", processes=[cluster.process], timeout=60)
    client.drop_table(table)


def is_written(client: JavaClient, table: str, cells: list[wire.Mutation]) -> bool:
    """Write cells, unless the server does not know their labels yet."""
    try:
        client.write(table, cells)
    except JavaClientError:
        return False
    return True


def labelled(expression: str, mutation: wire.Mutation) -> wire.Mutation:
    return replace(mutation, visibility=expression)


def seen(client: JavaClient, user: str, table: str) -> list[tuple[bytes, bytes, bytes]]:
    return [(c.row, c.qualifier, c.value) for c in client.scan_as(user, table)]


def test_cells_with_labels_are_refused_by_name_and_nothing_behind_them_is_shipped(sides: Sides, both, peer: str) -> None:
    table = both()
    sides.source.write(table, [wire.put("a", {"f:q": b"for all"})])
    sides.source.write(table, [labelled("secret", wire.put("b", {"f:q": b"secret", "l:q": b"local"}))])
    sides.source.write(table, [wire.put("c", {"f:q": b"for all"})])
    summary = ship_one(sides.at, peer)
    assert summary.status is Status.FAILED
    assert summary.error
    assert f"of table {table}" in summary.error
    assert "visibility_labels" in summary.error
    assert [c.row for c in sides.peer_cluster.scan_all(table)] == [b"a"]


def test_as_expressions_the_same_users_see_the_same_cells_though_the_ordinals_are_others(sides: Sides, both, peer: str) -> None:
    table = both(versions=5)
    expressions = ["secret", "public", "secret&public", "secret|public", "public&!secret", "!internal"]
    expressions += [QUOTED, f"{QUOTED}|(public&secret)"]
    for i, expression in enumerate(expressions):
        sides.source.write(table, [labelled(expression, wire.put(f"row{i}", {"f:q": expression.encode(), "f:r": b"more"}))])
    passing = labelled("internal", wire.put("ttl", {"f:q": b"x"}, ttl_ms=10**9))
    sides.source.write(table, [wire.put("free", {"f:q": b"for all"}), passing])
    # One entry and one row: HBase's own replication would give all cells the labels of the first.
    mixed = [labelled(e, wire.put("mixed", {f"f:{e}": b"x"})) for e in ("public", "secret")]
    sides.source.write(table, [*mixed, wire.put("mixed", {"f:free": b"x"})])
    # Deletes only delete cells that have their labels.
    sides.source.write(table, [labelled(e, wire.put(f"gone-{e}", {"f:q": b"x"}, timestamp=5)) for e in ("public", "secret")])
    for row in ("gone-public", "gone-secret"):
        sides.source.write(table, [labelled("secret", wire.delete_column(row, "f:q", timestamp=9))])

    summary = ship_one(replace(sides.at, visibility_labels="strings"), peer)
    assert summary.status is Status.DONE, summary.error
    for user in USERS:
        here = seen(sides.source, user, table)
        assert here == seen(sides.peer_cluster, user, table), user
    everything = sides.source.scan_all(table)
    assert len(everything) > max(len(seen(sides.source, user, table)) for user in USERS)
    assert len({tuple(seen(sides.source, user, table)) for user in USERS}) == len(USERS)
    there = sides.peer_cluster.scan_all(table)
    assert [replace(c, tags=b"") for c in there] == [replace(c, tags=b"") for c in everything]
    assert {tag for c in there for tag in kinds(c.tags)} == {2, 4, 8}  # no expression is left
    deleted = {c.row for c in sides.peer_cluster.scan_all(table, raw=True)} - {c.row for c in there}
    assert deleted == {b"gone-secret"}


def test_a_label_that_the_peer_cluster_has_not_stops_the_queue(
    sides: Sides, both, peer: str, unique: Callable[[str], str]
) -> None:
    table, label = both(), unique("label")
    sides.source.add_labels([label])
    cells = [labelled(label, wire.put("a", {"f:q": b"x"}))]
    source = sides.source_cluster.process
    wait_until(lambda: is_written(sides.source, table, cells), "the label is known", processes=[source], timeout=60)
    at = replace(sides.at, visibility_labels="strings")
    summary = ship_one(at, peer, deadline=6)
    assert summary.status is not Status.DONE
    assert label in str(summary.error)
    assert sides.peer_cluster.scan_all(table) == []
    sides.peer_cluster.add_labels([label])
    assert ship_one(at, peer).status is Status.DONE
    assert len(sides.peer_cluster.scan_all(table)) == 1


def test_shipped_as_they_are_the_tags_are_those_of_the_source(sides: Sides, both, peer: str) -> None:
    table = both()
    sides.source.write(table, [labelled("secret", wire.put("a", {"f:q": b"x"}))])
    assert ship_one(replace(sides.at, visibility_labels="ship"), peer).status is Status.DONE
    compared = sides.source.compare(table, sides.peer_cluster, families=["f"], raw=True)
    assert (compared.same, compared.left) == (True, 1)


def kinds(tags: bytes) -> Iterator[int]:
    while tags:
        yield tags[2]
        tags = tags[2 + int.from_bytes(tags[:2]) :]
