"""A right has one holder. A holder that has lost it writes nothing, even if its path was deleted and made again."""

from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from tests.zk.stepped import Stepped
from walferry.base.errors import WalferryError
from walferry.base.zk.fenced_lock import FencedLock, is_held, read_record

PATH = "/holds/right"


class Held(WalferryError):
    pass


class Lost(WalferryError):
    pass


def lock(zk: KazooClient) -> FencedLock:
    return FencedLock(zk, PATH, lambda who, since: Held(who), Lost)


def write(held: FencedLock, path: str) -> None:
    refusal = held.write(lambda multi: multi.create(path)).refusal
    assert refusal is None


@pytest.fixture(autouse=True)
def gone_afterwards(zk: KazooClient):
    yield
    zk.delete("/holds", recursive=True)


def test_one_holds_it_and_another_is_told_who(new_client: Callable[[], KazooClient], zk: KazooClient) -> None:
    first = lock(zk)
    assert first.acquire("the first", "run 1") == {}
    with pytest.raises(Held, match="the first"):
        lock(new_client()).acquire("the second", "run 2")
    assert is_held(zk, PATH)
    write(first, "/holds/a")
    first.release()
    assert not is_held(zk, PATH)
    assert lock(new_client()).acquire("the second", "run 2")["holder"] == "the first"


def test_an_attempt_that_was_put_out_writes_nothing_after_the_right_was_forgotten_and_acquired_anew(
    new_client: Callable[[], KazooClient], zk: KazooClient
) -> None:
    zombie, retry, other = lock(new_client()), lock(new_client()), lock(zk)
    zombie.acquire("attempt 1", "run 1")
    retry.acquire("attempt 2", "run 1")
    write(retry, "/holds/a")
    retry.release(forget=True)
    other.acquire("another", "run 2")
    with pytest.raises(Lost):
        write(zombie, "/holds/b")
    assert not zk.exists("/holds/b")
    write(other, "/holds/c")
    assert read_record(zk, PATH)["holder"] == "another"


def test_who_releases_what_it_has_lost_releases_nobody_else_s(new_client: Callable[[], KazooClient], zk: KazooClient) -> None:
    zombie, retry, other = lock(new_client()), lock(new_client()), lock(zk)
    zombie.acquire("attempt 1", "run 1")
    retry.acquire("attempt 2", "run 1")
    retry.release(forget=True)
    other.acquire("another", "run 2")
    zombie.release(forget=True)
    write(other, "/holds/a")


def test_who_looked_before_the_right_was_forgotten_does_not_put_out_the_one_who_acquired_it_anew(
    new_client: Callable[[], KazooClient], zk: KazooClient
) -> None:
    """The new lock has come to the same version as the old lock that the slow process has seen."""
    first = lock(zk)
    first.acquire("the first", "run 1")
    first.release()
    slow = Stepped(new_client(), lambda client: lock(client).acquire("the slow one", "run 2"))
    last, other = lock(zk), lock(new_client())
    last.acquire("the last one", "run 3")
    last.release(forget=True)
    other.acquire("another", "run 4")
    slow.finish()
    assert isinstance(slow.error, Held), slow.error
    write(other, "/holds/a")
    other.release()
    assert not is_held(zk, PATH)
