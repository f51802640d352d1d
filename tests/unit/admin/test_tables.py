"""Tables of a peer as operators write them, and messages about missing tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.admin import tables as peer_tables
from walferry.admin.tables import Asked, TableFamilies, UnclearTable, missing, parse_tables, resolve
from walferry.hbase.rpc.connection import Connection

Tables = Mapping[str, Mapping[str, bool]]  # families of each, and whether their edits are replicated


@pytest.fixture
def side(monkeypatch: pytest.MonkeyPatch):
    """`side({"t": {"f": True}}, namespaces)` → a cluster with these tables."""
    sides: dict[int, tuple[Tables, Collection[str]]] = {}

    def new(tables: Tables, namespaces: Collection[str] = ()) -> Connection:
        sides[len(sides)] = (tables, namespaces)
        return cast(Connection, len(sides) - 1)

    def families(at: int, wanted: Collection[str]) -> Tables:
        return {table: fams for table, fams in sides[at][0].items() if table in wanted}

    monkeypatch.setattr(peer_tables.master, "replicated_families", families)
    monkeypatch.setattr(peer_tables.master, "has_namespace", lambda at, name: name in sides[at][1])
    return new


def means(text: str) -> list[list[tuple[str, tuple[str, ...]]]]:
    return [[(reading.table, reading.families) for reading in asked.readings] for asked in parse_tables(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t", ("t", ())),
        ("t=f", ("t", ("f",))),
        ("ns:t=f", ("ns:t", ("f",))),
        ("ns:a.b-c=f,g", ("ns:a.b-c", ("f", "g"))),
        ("t:f,g", ("t", ("f", "g"))),
        ("ns:t:f", ("ns:t", ("f",))),
        ("ns:t:f, g", ("ns:t", ("f", "g"))),
        ("größe:表.x=ключ", ("größe:表.x", ("ключ",))),  # HBase takes letters and digits of any language
        ("größe:表:ключ", ("größe:表", ("ключ",))),
        ("default:t:f", ("t", ("f",))),
        ("default:t=f", ("t", ("f",))),
        ("'ns:t' => ['f', \"g\"]", ("ns:t", ("f", "g"))),
        ('{ "t" => [] }', ("t", ())),
    ],
)
def test_what_can_mean_one_thing_only_does(text: str, expected: tuple[str, tuple[str, ...]]) -> None:
    assert means(text) == [[expected]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("clicks:cf1", [("clicks", ("cf1",)), ("clicks:cf1", ())]),
        ("default:t", [("default", ("t",)), ("t", ())]),
        ("ns.t", [("ns.t", ()), ("ns:t", ())]),
        ("ns.t:f", [("ns.t", ("f",)), ("ns:t", ("f",))]),
        ("ns.t:f,g", [("ns.t", ("f", "g")), ("ns:t", ("f", "g"))]),
        ("a-b.c:f", [("a-b.c", ("f",))]),  # a namespace has no dash
        ("a.b.c", [("a.b.c", ())]),
        ("größe:表", [("größe", ("表",)), ("größe:表", ())]),
    ],
)
def test_what_may_mean_two_things_is_not_decided_by_its_form(text: str, expected: list[tuple[str, tuple[str, ...]]]) -> None:
    assert means(text) == [expected]


def test_several_tables_are_split_as_hbase_does() -> None:
    text = "t1; ns2:t2:f,g;ns3:t3=h;"
    assert means(text) == [[("t1", ())], [("ns2:t2", ("f", "g"))], [("ns3:t3", ("h",))]]
    text = "{ 'ns2:t2' => ['f', 'g'], 't1' => [] }"
    assert means(text) == [[("ns2:t2", ("f", "g"))], [("t1", ())]]


@pytest.mark.parametrize(
    "text",
    ["", ";", "=f", "t=", "t=f,", "a:b:c:d", "-t", "a/b", "t t", "t:", ":t", "t:f,,g", "n-s:t:f", "ns:t=f:g", "'t' => ['f'",
     "t => [f]", "{ 't' => ['f'] } x", "'t' => [{}]", "t:f;=", "t=>"],
)  # fmt: skip
def test_what_is_no_table_with_families_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not \[namespace:\]table"):
        parse_tables(text)


names = st.from_regex(r"[A-Za-z0-9_]{1,8}", fullmatch=True)
tables = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,8}", fullmatch=True)
lists = st.lists(names, min_size=1, max_size=4, unique=True)


@given(names.filter(lambda name: name != "default"), tables, lists, st.sampled_from(["{}:{}={}", "{}:{}:{}", "{}.{}:{}"]))
def test_each_notation_has_what_was_written_among_its_meanings(namespace: str, name: str, families: list[str], form: str) -> None:
    (asked,) = parse_tables(form.format(namespace, name, ",".join(families)))
    assert TableFamilies(f"{namespace}:{name}", tuple(families)) in asked.readings


@given(st.text(alphabet="ab:.,;=>[]{}'\" -/", max_size=20))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        asked = parse_tables(text)
    except ValueError:
        return
    assert all(each.readings for each in asked)


CLICKS: Tables = {"clicks": {"cf1": True, "cf2": False}}


@pytest.mark.parametrize(
    ("text", "there", "expected"),
    [
        ("clicks:cf1", CLICKS, {"clicks": ("cf1",)}),
        ("clicks:cf1", {"clicks:cf1": {"f": True}}, {"clicks:cf1": ()}),
        ("clicks:cf1", {"clicks:cf1": {"f": True}, "clicks": {"g": True}}, {"clicks:cf1": ()}),
        ("ns.t:f", {"ns:t": {"f": True}}, {"ns:t": ("f",)}),
        ("ns.t", {"ns.t": {"f": True}}, {"ns.t": ()}),
        ("later=f", {}, {"later": ("f",)}),
        ("clicks:cf1;ns:t:f", CLICKS, {"clicks": ("cf1",), "ns:t": ("f",)}),
    ],
)
def test_the_source_s_tables_decide_what_is_meant(side, text: str, there: Tables, expected: dict[str, tuple[str, ...]]) -> None:
    assert resolve(parse_tables(text), side(there)) == expected


def test_what_the_source_has_neither_way_is_refused_and_says_how_to_write_it(side) -> None:
    with pytest.raises(UnclearTable) as e:
        resolve(parse_tables("clicks:cf1"), side({}))
    assert str(e.value) == (
        "'clicks:cf1' may be family cf1 of table clicks or table cf1 of namespace clicks, but the source has neither. "
        "If it is to come later, write clicks=cf1 or clicks:cf1=<its families>"
    )
    with pytest.raises(UnclearTable, match=r"but the source has neither; table clicks has cf1, cf2\. If it is"):
        resolve(parse_tables("clicks:cf3"), side(CLICKS))


def test_what_the_source_has_both_ways_is_refused_and_says_how_to_write_it(side) -> None:
    both = {**CLICKS, "clicks:cf1": {"f": True, "g": True}}
    with pytest.raises(UnclearTable, match=r"and the source has both: write clicks=cf1 or clicks:cf1=f,g$"):
        resolve(parse_tables("clicks:cf1"), side(both))


def test_a_table_named_twice_is_refused(side) -> None:
    with pytest.raises(UnclearTable, match="table t is named twice"):
        resolve([Asked("t=f", (TableFamilies("t", ("f",)),)), Asked("t=g", (TableFamilies("t", ("g",)),))], side({}))


WHOLE: Tables = {"t": {"f": True, "g": True, "l": False}, "ns:t": {"f": True}, "local": {"f": False}}


@pytest.mark.parametrize("table_cfs", [{"t": ("f", "g")}, {"t": ()}, {"ns:t": ("f",)}])
def test_nothing_is_missing_where_all_is_there(side, table_cfs: Mapping[str, tuple[str, ...]]) -> None:
    assert missing(side(WHOLE, ["ns"]), side(WHOLE, ["ns"]), ["ns"], table_cfs) == []


@pytest.mark.parametrize(
    ("namespaces", "table_cfs", "at_peer_cluster", "reported"),
    [
        (["none"], {}, WHOLE, ["there is no namespace none at the source", "there is no namespace none at the peer cluster"]),
        ([], {"x": ()}, {}, ["there is no table x at the source", "there is no table x at the peer cluster"]),
        ([], {"t": ("f",)}, {}, ["there is no table t at the peer cluster"]),
        (
            [],
            {"t": ("x",)},
            WHOLE,
            ["table t has no family x at the source, only f, g, l", "table t has no family x at the peer clu"],
        ),
        ([], {"t": ()}, {"t": {"f": True}}, ["table t has no family g at the peer cluster, only f"]),
        ([], {"t": ("l",)}, WHOLE, ["family l of table t has REPLICATION_SCOPE 0 at the source, so none of its edits is "]),
        ([], {"local": ()}, WHOLE, ["no family of table local has REPLICATION_SCOPE 1 at the source, so none of its edits"]),
    ],
)
def test_what_is_missing_is_named_with_its_side(side, namespaces, table_cfs, at_peer_cluster, reported) -> None:
    lines = missing(side(WHOLE, ["ns"]), side(at_peer_cluster, ["ns"]), namespaces, table_cfs)
    assert len(lines) == len(reported)
    for line, begins in zip(lines, reported, strict=True):
        assert line.startswith(begins)
