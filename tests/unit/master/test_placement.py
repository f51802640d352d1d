"""Which server gets which region."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.hbase.names import ServerName
from walferry.master.placement import SLOP, Placeable, moves, spread

SERVERS = [ServerName(f"host{i}", 16020, 100 + i) for i in range(6)]
CLUSTERS = st.integers(1, 6).map(lambda n: SERVERS[:n])


def region(n: int, last: ServerName | None = None, **locality: float) -> Placeable:
    return Placeable(f"{n:032x}", last, locality)


def test_a_restarted_server_gets_its_regions_back() -> None:
    before = ServerName("host1", 16020, 7)
    assert set(spread([region(n, before) for n in range(3)], SERVERS[1:2], {}).values()) == {SERVERS[1]}
    assert spread([region(1, before), region(2, SERVERS[0])], SERVERS[:2], {}) == {
        region(1).encoded_name: SERVERS[1],
        region(2).encoded_name: SERVERS[0],
    }


def test_a_region_goes_where_most_of_its_blocks_are() -> None:
    assert spread([region(1, host0=0.2, host1=0.9)], SERVERS[:3], {})[region(1).encoded_name] == SERVERS[1]


def test_no_server_gets_more_than_its_share_for_locality_s_sake() -> None:
    placed = spread([region(n, SERVERS[0], host0=1.0) for n in range(9)], SERVERS[:3], {})
    assert Counter(placed.values()) == dict.fromkeys(SERVERS[:3], 3)


def test_without_servers_nothing_can_be_placed() -> None:
    with pytest.raises(ValueError, match="no server"):
        spread([region(1)], [], {})


@given(
    CLUSTERS,
    st.lists(st.tuples(st.sampled_from([None, *SERVERS]), st.dictionaries(st.sampled_from(["host0", "host5"]), st.floats(0, 1)))),
    st.dictionaries(st.sampled_from(SERVERS), st.integers(0, 9)),
)
def test_each_region_gets_one_live_server_and_none_more_than_its_share(servers, regions, load) -> None:
    wanted = [Placeable(f"{n:032x}", last, locality) for n, (last, locality) in enumerate(regions)]
    placed = spread(wanted, servers, load)
    assert placed.keys() == {each.encoded_name for each in wanted}
    assert set(placed.values()) <= set(servers)
    before = {server: load.get(server, 0) for server in servers}
    share = math.ceil((sum(before.values()) + len(wanted)) / len(servers))
    gained = Counter(placed.values())
    assert all(before[server] + gained[server] <= share for server in gained)


@given(CLUSTERS, st.lists(st.integers(0, 5), max_size=60))
def test_moves_bring_all_servers_to_the_mean_with_as_few_moves_as_it_takes(servers, at) -> None:
    assigned = {f"{n:032x}": SERVERS[i] for n, i in enumerate(at) if SERVERS[i] in servers}
    planned = moves(assigned, servers)
    counts = {server: list(assigned.values()).count(server) for server in servers}
    mean = len(assigned) / len(servers)
    for move in planned:
        assert assigned[move.encoded_name] == move.source
        assert move.source != move.destination
        counts[move.source] -= 1
        counts[move.destination] += 1
    assert len({move.encoded_name for move in planned}) == len(planned)
    if planned:
        assert all(math.floor(mean) <= count <= math.ceil(mean) for count in counts.values())
    else:
        assert all(math.floor(mean * (1 - SLOP)) <= count <= math.ceil(mean * (1 + SLOP)) for count in counts.values())
    before = Counter(assigned.values())
    assert len(planned) <= sum(max(0, before[server] - math.floor(mean)) for server in servers)


def test_a_region_leaves_the_server_that_holds_least_of_its_blocks() -> None:
    assigned = {region(n).encoded_name: SERVERS[0] for n in range(4)}
    locality = {region(n).encoded_name: {"host0": n / 4} for n in range(4)}
    leaving = [move.encoded_name for move in moves(assigned, SERVERS[:2], locality)]
    assert leaving == [region(0).encoded_name, region(1).encoded_name]


def test_one_server_alone_is_balanced() -> None:
    assert moves({region(1).encoded_name: SERVERS[0]}, SERVERS[:1]) == []
