"""Cells with visibility labels: which of them stop the queue, and how the others are shipped."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import DELETE_COLUMN, PUT, Cell, encode_tags, encode_varint
from tests.unit.replication.filters.test_entry_filter import MARK, OTHER, PEER_CLUSTER, RULES, SOURCE, batch_of, entry, put
from tests.unit.replication.sinks.hbase.test_bulk_loads import ON, descriptor, load_cell
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import KeptEdits, filter_batch
from walferry.replication.filters.rules import FilterRules, PeerTables
from walferry.replication.filters.visibility import LabelFilter, LabelsRefused, LabelsUnknown, Untranslatable, in_words
from walferry.replication.sinks.hbase.bulk_loads import take_bulk_loads
from walferry.replication.sinks.hbase.shipment import assemble
from walferry.replication.source.cluster import VisibilityLabels

LABELS = {1: b"system", 2: b"secret", 3: b"public", 40_000: 'größe "a\\b"'.encode()}
FORMAT = (4, b"\x01")


def ordinals(*numbers: int) -> tuple[int, bytes]:
    """A tag as the VisibilityController writes it."""
    return 2, b"".join(encode_varint(number & 0xFFFFFFFF) for number in numbers)


SECRET, PUBLIC = encode_tags([FORMAT, ordinals(2)]), encode_tags([FORMAT, ordinals(3)])


def cell(tags: bytes = b"", row: bytes = b"row", family: bytes = b"f", kind: int = PUT, value: bytes = b"value") -> Cell:
    return Cell(row, family, b"q", 1, kind, value, tags)


def applied(
    batch: WalBatch,
    policy: VisibilityLabels = VisibilityLabels.STRINGS,
    rules: FilterRules = RULES,
    labels: Mapping[int, bytes] = LABELS,
) -> tuple[WalBatch, KeptEdits]:
    return LabelFilter(policy, lambda: labels).apply(batch, filter_batch(batch, rules, "wal"), "wal")


def shipped(batch: WalBatch, kept: KeptEdits) -> list[list[Cell]]:
    """The cells of each entry of the request."""
    chosen = np.flatnonzero(kept.cells)
    if not chosen.size:
        return []
    shipment = assemble(batch, kept, chosen, MARK)
    entries = pb.ReplicateWALEntryRequest.FromString(b"".join(e.tobytes() for e in shipment.entries)).entry
    cells = iter(decoded(b"".join(c.tobytes() for c in shipment.cells)))
    found = [[next(cells) for _ in range(e.associated_cell_count)] for e in entries]
    assert next(cells, None) is None
    assert [sum(map(len, (c.encode() for c in each))) for each in found] == [int(s) for s in kept.size[chosen]]
    return found


def decoded(data: bytes) -> list[Cell]:
    found, at = [], 0
    while at < len(data):
        length, key_len, value_len = (int.from_bytes(data[at + i : at + i + 4]) for i in (0, 4, 8))
        key, end = data[at + 12 : at + 12 + key_len], at + 4 + length
        row_len = int.from_bytes(key[:2])
        family_len = key[2 + row_len]
        family_at = 3 + row_len
        value_at = at + 12 + key_len
        found.append(
            Cell(
                key[2 : 2 + row_len], key[family_at : family_at + family_len], key[family_at + family_len : -9],
                int.from_bytes(key[-9:-1]), key[-1], data[value_at : value_at + value_len], data[value_at + value_len + 2 : end],
            )
        )  # fmt: skip
        assert found[-1].encode() == data[at:end]
        at = end
    return found


def expression(tags: bytes) -> bytes:
    """The content of the only tag of type 7, which is the last one."""
    *_, (kind, content) = split_tags(tags)
    assert kind == 7
    return content


def split_tags(tags: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(tags):
        end = at + 2 + int.from_bytes(tags[at : at + 2])
        found.append((tags[at + 2], tags[at + 3 : end]))
        at = end
    return found


def test_by_default_the_first_cell_with_labels_stops_the_queue_by_name():
    batch = batch_of(entry(cell()), entry(cell(), cell(SECRET), table=b"ns:t"), entry(cell(PUBLIC)))
    with pytest.raises(LabelsRefused) as e:
        applied(batch, VisibilityLabels.REFUSE)
    assert str(e.value).startswith(
        f"wal at byte {batch.positions[1]}: a cell of table ns:t, region {'r' * 32}, has visibility labels (tags of type 2). "
    )
    assert "Set visibility_labels in the connection's extra" in str(e.value)
    assert len(batch.until(e.value.offset).index) == 1


@pytest.mark.parametrize("policy", VisibilityLabels)
def test_cells_with_other_tags_are_left_alone(policy):
    tags = encode_tags([(1, b"acl"), (4, b"\x01"), (7, b"(secret)"), (8, bytes(8)), (9, b""), (64, b"\x02\x02\x02")])
    batch = batch_of(entry(cell(tags), cell()))
    kept = filter_batch(batch, RULES, "wal")
    assert LabelFilter(policy, dict).apply(batch, kept, "wal") == (batch, kept)


@pytest.mark.parametrize("policy", VisibilityLabels)
def test_cells_that_the_peer_does_not_get_do_not_stop_the_queue(policy):
    others = FilterRules(SOURCE, PEER_CLUSTER, PeerTables(replicate_all=False, namespaces=frozenset({b"ns"})))
    for batch, rules in (
        (batch_of(entry(cell(SECRET, family=b"l"), cell())), RULES),
        (batch_of(entry(cell(SECRET), ids=(PEER_CLUSTER,))), RULES),
        (batch_of(entry(cell(SECRET), table=b"hbase:meta")), RULES),
        (batch_of(entry(cell(SECRET)), entry(cell(), table=b"ns:t")), others),
    ):
        _, kept = applied(batch, policy, rules, {})
        assert not kept.labelled.any()


def test_with_ship_the_tags_stay_as_they_are():
    batch = batch_of(entry(cell(SECRET), cell(PUBLIC)))
    assert shipped(*applied(batch, VisibilityLabels.SHIP)) == [[cell(SECRET), cell(PUBLIC)]]


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ([ordinals(2)], '("secret")'),
        ([FORMAT, ordinals(2, 3)], '("secret"&"public")'),
        ([FORMAT, ordinals(-3, 2)], '(!"public"&"secret")'),
        ([FORMAT, ordinals(2), ordinals(-1, 3)], '("secret")|(!"system"&"public")'),
        ([FORMAT, ordinals(40_000)], '("größe \\"a\\\\b\\"")'),
    ],
)
def test_the_expression_is_that_of_hbase_s_visibility_replication(tags, words):
    ttl = (8, bytes(8))
    ((sent,),) = shipped(*applied(batch_of(entry(cell(encode_tags([ttl, *tags, (64, b"x")]))))))
    assert sent == cell(encode_tags([ttl, (64, b"x"), (7, words.encode())]))


def test_deletes_keep_their_labels_too():
    ((sent,),) = shipped(*applied(batch_of(entry(cell(SECRET, kind=DELETE_COLUMN, value=b"")))))
    assert sent == cell(encode_tags([(7, b'("secret")')]), kind=DELETE_COLUMN, value=b"")


def test_an_expression_from_elsewhere_gives_way_to_the_labels_that_count_at_the_source():
    ((sent,),) = shipped(*applied(batch_of(entry(cell(encode_tags([(7, b"public"), FORMAT, ordinals(2)]))))))
    assert split_tags(sent.tags) == [(7, b'("secret")')]


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        (encode_tags([FORMAT, ordinals(4)]), "the source's label table has none of ordinal 4"),
        (encode_tags([FORMAT, ordinals(2), ordinals(-9)]), "the source's label table has none of ordinal 9"),
        (encode_tags([FORMAT, ordinals(0)]), "the source's label table has none of ordinal 0"),
        (encode_tags([(4, b"\x02"), ordinals(2)]), "in a format other than sorted ordinals (02)"),
        (encode_tags([(2, b"")]), "whose ordinals cannot be parsed ()"),
        (encode_tags([(2, b"\x82")]), "whose ordinals cannot be parsed (82)"),
        (encode_tags([(2, b"\xff" * 6)]), "whose ordinals cannot be parsed (ffffffffffff)"),
        (encode_tags([(64, b"x" * 32_745), ordinals(2, 3)]), "whose expression has 19 bytes, more than a cell's tags can hold"),
    ],
)  # fmt: skip
def test_labels_that_cannot_be_put_in_words_stop_the_queue(tags, reason):
    batch = batch_of(entry(cell(PUBLIC)), entry(cell(), cell(tags)))
    with pytest.raises(LabelsUnknown, match=re.escape(reason)) as e:
        applied(batch)
    assert e.value.offset == batch.positions[1]
    assert "region " + "r" * 32 in str(e.value)


def test_an_expression_that_fits_no_cell_is_not_built():
    tracemalloc.start()
    with pytest.raises(Untranslatable, match="whose expression has 1000060001 bytes"):
        in_words(encode_tags([(2, b"\x01" * 20_000)]), {1: b"x" * 50_000})
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


@pytest.mark.long
def test_the_cache_of_translations_is_bounded():
    labels = LabelFilter(VisibilityLabels.STRINGS, lambda: LABELS)
    tracemalloc.start()
    for i in range(2_000):
        labels._translate(encode_tags([(64, i.to_bytes(2) + bytes(20_000)), ordinals(2)]))
    assert tracemalloc.get_traced_memory()[0] < 20_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("label", [b"", b" public", b"public\t", b"\xff"])
def test_a_label_that_the_peer_cluster_would_take_for_another_is_not_put_in_words(label):
    with pytest.raises(Untranslatable, match="is another one for the peer cluster"):
        in_words(encode_tags([ordinals(1)]), {1: label})


def test_only_unknown_labels_are_read_again():
    tables, reads = [{2: b"secret"}, {2: b"secret", 3: b"public"}], []
    labels = LabelFilter(VisibilityLabels.STRINGS, lambda: reads.append(1) or tables[len(reads) - 1])
    for tags in (SECRET, SECRET, PUBLIC, SECRET):
        batch = batch_of(entry(cell(tags)))
        shipped(*labels.apply(batch, filter_batch(batch, RULES, "wal"), "wal"))
    assert len(reads) == 2


def test_adjacent_cells_of_one_row_and_type_with_other_labels_are_shipped_as_separate_entries():
    """A sink makes one mutation of them, to which the peer cluster applies the first cell's expression."""
    cells = [
        cell(SECRET, b"a"), cell(SECRET, b"a", kind=DELETE_COLUMN), cell(PUBLIC, b"b"), cell(PUBLIC, b"b"),
        cell(SECRET, b"b"), cell(b"", b"b"), cell(b"", b"l"), cell(SECRET, b"c"), cell(SECRET, b"l", b"l"),
    ]  # fmt: skip
    batch = batch_of(entry(cell()), entry(*cells, ids=(OTHER,)), entry(cell(b"", b"z")))
    changed, kept = applied(batch)
    found = shipped(changed, kept)
    assert [[c.row for c in each] for each in found] == [[b"row"], [b"a", b"a", b"b", b"b"], [b"b"], [b"b", b"l", b"c"], [b"z"]]
    assert [expression(c.tags) if c.tags else b"" for c in found[3]] == [b"", b"", b'("secret")']
    assert list(kept.rows) == [1, 2, 1, 3, 1]
    assert int((changed.index.cell_count - kept.cells).sum()) == 1  # the cell of a LOCAL family is counted as filtered
    starts, ends = batch.positions, batch.next_positions
    assert list(changed.positions) == [starts[0], starts[1], starts[1], starts[1], starts[2]]
    assert list(changed.next_positions) == [ends[0], starts[1], starts[1], ends[1], ends[2]]


def test_a_bulk_load_beside_cells_with_labels_is_loaded_once():
    batch = batch_of(entry(cell(SECRET), load_cell(descriptor()), cell(PUBLIC)))
    changed, kept = applied(batch)
    loads = take_bulk_loads(changed, kept, RULES, ON, "wal")
    assert list(loads) == [1]
    assert [[c.tags for c in decoded(b"".join(p.tobytes() for p in s.cells))] for s in loads.values()] == [
        [encode_tags([(7, b'("public")')]), b""]
    ]
    rest = assemble(changed, kept, np.array([0]), MARK)
    assert [expression(c.tags) for c in decoded(rest.cells[0].tobytes())] == [b'("secret")']


tag_numbers = st.lists(st.sampled_from([1, 2, 3, 40_000]).flatmap(lambda n: st.sampled_from([n, -n])), min_size=1, max_size=3)
terms_ = st.lists(tag_numbers, min_size=1, max_size=3)
cells_ = st.builds(
    lambda terms, row, family, kind, value: (terms, cell(label_tags(terms), row, family, kind, value)),
    st.just([]) | terms_,
    st.sampled_from([b"a", b"b"]),
    st.sampled_from([b"f", b"f", b"l"]),
    st.sampled_from([PUT, DELETE_COLUMN]),
    st.binary(max_size=5),
)


def label_tags(terms: list[list[int]]) -> bytes:
    return encode_tags([FORMAT, *(ordinals(*term) for term in terms)]) if terms else b""


def visible(terms: list[list[int]], auths: frozenset[int]) -> bool:
    """Decide like DefaultVisibilityLabelServiceImpl.getVisibilityExpEvaluator."""
    return not terms or any(all((abs(n) in auths) == (n > 0) for n in term) for term in terms)


def visible_by(words: bytes, auths: frozenset[int]) -> bool:
    """Decide the same by an expression, where the labels may have other ordinals."""
    source = words
    for number, label in LABELS.items():
        quoted = b'"' + label.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
        source = source.replace(quoted, b" True " if number in auths else b" False ")
    text = source.decode().replace("!", " not ").replace("&", " and ").replace("|", " or ")
    assert re.fullmatch(r"(True|False|not|and|or|[() ])*", text), text
    return bool(eval(text))


@settings(max_examples=3 * settings().max_examples)
@given(st.lists(st.lists(cells_, min_size=1, max_size=6), min_size=1, max_size=4), st.frozensets(st.sampled_from(sorted(LABELS))))
def test_the_same_users_see_the_same_cells(entries, auths):
    batch = batch_of(*(entry(*(c for _, c in cells)) for cells in entries))
    changed, kept = applied(batch)
    found = shipped(changed, kept)
    want = [(terms, c) for cells in entries for terms, c in cells if c.family == b"f"]
    assert [replace(c, tags=b"") for each in found for c in each] == [replace(c, tags=b"") for _, c in want]
    for each in found:
        row_and_type = mutation = None
        for c in each:
            terms, _ = want.pop(0)
            if row_and_type != (c.row, c.type):
                # All cells of one mutation in a sink get the expression of the first one.
                row_and_type, mutation = (c.row, c.type), expression(c.tags) if c.tags else None
            assert visible(terms, auths) == (mutation is None or visible_by(mutation, auths))
    assert int((changed.index.cell_count - kept.cells)[kept.cells > 0].sum()) == sum(
        c.family == b"l" for cells in entries if any(c.family == b"f" for _, c in cells) for _, c in cells
    )


some_tags = st.lists(st.tuples(st.sampled_from([0, 1, 2, 4, 7, 8, 64]), st.binary(max_size=5) | st.just(b"\0\2\2")), max_size=4)


@settings(max_examples=2 * settings().max_examples)
@given(st.lists(st.lists(some_tags, min_size=1, max_size=3), min_size=1, max_size=4))
def test_labels_are_found_by_the_type_of_a_tag_wherever_it_stands(entries):
    batch = batch_of(*(entry(*(cell(encode_tags(tags)) for tags in cells)) for cells in entries))
    found = filter_batch(batch, RULES, "wal").labelled
    assert list(found) == [any(kind == 2 for tags in cells for kind, _ in tags) for cells in entries]


def test_without_labels_nothing_is_copied():
    batch = batch_of(*(entry(put()) for _ in range(3)))
    kept = filter_batch(batch, RULES, "wal")
    changed, same = LabelFilter(VisibilityLabels.STRINGS, dict).apply(batch, kept, "wal")
    assert changed is batch
    assert same is kept
