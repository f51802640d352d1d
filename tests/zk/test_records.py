"""Records replace or succeed the record before: of two writers, neither loses the other's record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException, NodeExistsError

from walferry.base.zk import records
from walferry.base.zk.client import Refusal, commit
from walferry.base.zk.errors import ConnectError, Contention
from walferry.base.zk.records import decode, encode, put, put_fenced, set_fenced, update

PATH = "/records/p/a"


@pytest.fixture
def zk(zk: KazooClient) -> Iterator[KazooClient]:
    zk.delete("/records", recursive=True)
    yield zk
    zk.delete("/records", recursive=True)


def counts(zk: KazooClient) -> dict[str, int]:
    return decode(dict[str, int], zk.get(PATH)[0])


def one_more(name: str) -> Callable[[bytes | None], bytes]:
    def change(value: bytes | None) -> bytes:
        before = {} if value is None else decode(dict[str, int], value)
        return encode({**before, name: before.get(name, 0) + 1})

    return change


def test_a_record_is_made_with_its_parents_and_written_over(zk: KazooClient) -> None:
    assert put(zk, PATH, encode({"a": 1})) == 0
    assert put(zk, PATH, encode({"b": 2})) == 1
    assert counts(zk) == {"b": 2}
    zk.delete(PATH)
    assert put(zk, PATH, encode({})) == 0


def test_a_record_belongs_to_those_to_whom_the_session_s_znodes_do(zk: KazooClient) -> None:
    from kazoo.security import make_acl

    zk.default_acl = [make_acl("ip", "127.0.0.1", all=True)]
    put(zk, PATH, b"")
    put_fenced(zk, fence(zk), f"{PATH}/fenced/a", b"")
    update(zk, f"{PATH}/updated/a", one_more("a"))
    for path in (PATH, "/records", f"{PATH}/fenced", f"{PATH}/fenced/a", f"{PATH}/updated", f"{PATH}/updated/a"):
        assert zk.get_acls(path)[0] == zk.default_acl


def test_of_two_updaters_at_once_none_loses_the_other_s_change(zk: KazooClient, new_client: Callable[[], KazooClient]) -> None:
    clients = {name: new_client() for name in ("a", "b", "c")}

    def count(name: str) -> list[bool]:
        return [update(clients[name], PATH, one_more(name), tries=1000) for _ in range(30)]

    with ThreadPoolExecutor(len(clients)) as pool:
        written = [each for found in pool.map(count, clients) for each in found]
    assert all(written)
    assert counts(zk) == dict.fromkeys(clients, 30)


def test_a_change_is_made_anew_of_what_another_client_has_written(zk: KazooClient, new_client: Callable[[], KazooClient]) -> None:
    other, seen = new_client(), []

    def change(value: bytes | None) -> bytes:
        seen.append(value)
        if len(seen) == 1:
            put(other, PATH, encode({"b": 1}))
        if len(seen) == 2:
            other.delete(PATH)
        if len(seen) == 3:
            put(other, PATH, encode({"c": 1}))
        return one_more("a")(value)

    assert update(zk, PATH, change)
    assert seen == [None, encode({"b": 1}), None, encode({"c": 1})]
    assert counts(zk) == {"c": 1, "a": 1}


def test_what_is_to_stay_is_not_written(zk: KazooClient) -> None:
    assert not update(zk, PATH, lambda value: None)
    assert zk.exists(PATH) is None
    put(zk, PATH, b"")
    assert not update(zk, PATH, lambda value: None)
    assert zk.get(PATH)[1].version == 0


def test_a_record_that_changes_all_the_time_is_given_up(zk: KazooClient, new_client: Callable[[], KazooClient]) -> None:
    other, tries = new_client(), []

    def change(value: bytes | None) -> bytes:
        tries.append(put(other, PATH, b""))
        return b"a"

    with pytest.raises(Contention, match=rf"{PATH} changed 7 times while it was being written"):
        update(zk, PATH, change, tries=7)
    assert len(tries) == 7
    assert zk.get(PATH)[0] == b""


@pytest.mark.parametrize("carried_out", [False, True])
@pytest.mark.parametrize("there", [False, True])
def test_an_update_whose_answer_is_lost_is_made_once_and_counts_as_written(
    zk: KazooClient, monkeypatch: pytest.MonkeyPatch, carried_out: bool, there: bool
) -> None:
    name = "set" if there else "create"
    send, lost = getattr(zk, name), []

    def losing(*args: object) -> object:
        if not lost:
            lost.append(args)
            if carried_out:
                send(*args)
            raise ConnectionLoss
        return send(*args)

    if there:
        put(zk, PATH, encode({}))
    monkeypatch.setattr(zk, name, losing)
    assert update(zk, PATH, lambda value: None if value and b"a" in value else one_more("a")(value))
    assert counts(zk) == {"a": 1}
    assert lost


def test_a_client_that_is_closed_is_told_as_everywhere(zk: KazooClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*args: object) -> object:
        raise records.ConnectionClosedError

    put(zk, PATH, b"")
    monkeypatch.setattr(zk, "set", closed)
    with pytest.raises(ConnectError):
        update(zk, PATH, lambda value: b"a")


def fence(zk: KazooClient, lose: int = 0) -> records.Fence:
    """Return a fence without checks. The answers of its first `lose` multis are lost, and these are sent again."""
    left = [lose]

    def send(operations: Callable[[object], None]) -> Refusal | None:
        while True:
            multi = zk.transaction()
            operations(multi)
            refusal = commit(multi)
            if not left[0]:
                return refusal
            left[0] -= 1

    return send


@pytest.mark.parametrize("lose", [0, 1, 2])
def test_a_holder_s_record_is_made_or_written_over(zk: KazooClient, lose: int) -> None:
    put_fenced(zk, fence(zk, lose), PATH, encode({"a": 1}))
    assert counts(zk) == {"a": 1}
    put_fenced(zk, fence(zk, lose), PATH, encode({"b": 2}))
    assert counts(zk) == {"b": 2}


def test_what_the_fence_refuses_for_another_reason_is_raised(zk: KazooClient) -> None:
    refused = KazooException("no")
    with pytest.raises(KazooException) as raised:
        put_fenced(zk, lambda operations: Refusal(0, refused), PATH, b"")
    assert raised.value is refused
    assert zk.exists(PATH) is None


@pytest.mark.parametrize("lose", [0, 1, 2])
def test_a_holder_s_record_is_written_only_after_the_one_that_was_read(zk: KazooClient, lose: int) -> None:
    zk.ensure_path("/records/p")
    version = set_fenced(zk, fence(zk, lose), PATH, b"first", None)
    assert version == 0
    version = set_fenced(zk, fence(zk, lose), PATH, b"second", version)
    assert version == 1
    put(zk, PATH, b"another's")
    assert set_fenced(zk, fence(zk, lose), PATH, b"third", version) is None
    assert set_fenced(zk, fence(zk, lose), PATH, b"third", None) is None
    assert zk.get(PATH)[0] == b"another's"
    zk.delete(PATH)
    assert set_fenced(zk, fence(zk, lose), PATH, b"third", 2) is None
    assert zk.exists(PATH) is None
    with pytest.raises(NodeExistsError):
        zk.create("/records")
