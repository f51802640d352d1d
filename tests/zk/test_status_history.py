"""Samples of a peer are kept for a day, each interval once, whoever writes them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes
from walferry.base.zk import records as module
from walferry.observe.status.ages import Age, Certainty
from walferry.observe.status.history import INTERVAL_SECONDS, SAMPLES, Sample, encode, read_histories, record_sample, sample_at
from walferry.replication.source.session import Session
from walferry.shipping.garbage_collection import collect_garbage_of_gone_peers

NOW = 1_800_000_000


@pytest.fixture
def session(zk: KazooClient, hbase: HBaseZNodes) -> Session:
    return session_of(zk, hbase)


def sample(number: int, lag: int = 1) -> Sample:
    return sample_at(NOW + number * INTERVAL_SECONDS, Age(lag, Certainty.EXACT), (2, 0), 3, 4)


def history(session: Session) -> tuple[Sample, ...]:
    found, problems = read_histories(session, ["p"])
    assert problems == []
    return found["p"]


def test_samples_are_kept_for_a_day_and_each_interval_once(session: Session) -> None:
    assert history(session) == ()
    assert record_sample(session, "p", sample(0))
    assert not record_sample(session, "p", sample(0, lag=7))
    for number in range(1, SAMPLES + 2):
        assert record_sample(session, "p", sample(number))
    assert [each.interval for each in history(session)] == [sample(number).interval for number in range(2, SAMPLES + 2)]


def test_after_a_pause_only_the_samples_of_the_last_day_are_left(session: Session) -> None:
    for number in (0, 5, SAMPLES + 4):
        record_sample(session, "p", sample(number))
    assert history(session) == (sample(5), sample(SAMPLES + 4))


def test_writers_side_by_side_lose_no_sample_and_write_none_twice(
    session: Session, new_client: Callable[[], KazooClient]
) -> None:
    sessions = [Session(session.source, new_client()) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        for number in range(10):
            added = [pool.submit(record_sample, each, "p", sample(number, lag)) for lag, each in enumerate(sessions, 1)]
            assert sum(each.result() for each in added) == 1
    assert [each.interval for each in history(session)] == [sample(number).interval for number in range(10)]


def test_a_sample_that_another_writer_adds_meanwhile_is_kept(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    record_sample(session, "p", sample(0))
    others = [sample(1), sample(2, lag=7)]
    read = module.read

    def other_writer_is_faster(zk: KazooClient, path: str) -> object:
        found = read(zk, path)
        if others:
            monkeypatch.setattr(module, "read", read)
            assert record_sample(session, "p", others.pop(0))
            monkeypatch.setattr(module, "read", other_writer_is_faster)
        return found

    monkeypatch.setattr(module, "read", other_writer_is_faster)
    assert not record_sample(session, "p", sample(2))
    assert history(session) == (sample(0), sample(1), sample(2, lag=7))


def test_samples_of_the_future_go_with_the_next_one(session: Session) -> None:
    record_sample(session, "p", sample(0))
    record_sample(session, "p", sample(100))
    assert record_sample(session, "p", sample(1))
    assert history(session) == (sample(0), sample(1))


@pytest.mark.parametrize(
    "value", [b"", b"junk", b"x" * 900_000, encode([sample(1), sample(0)])], ids=["empty", "junk", "huge", "order"]
)
def test_what_is_no_history_is_told_and_begun_anew(session: Session, value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = session.own.history("p")
    session.zk.create(path, value, makepath=True)
    record_sample(session, "q", sample(0))
    found, problems = read_histories(session, ["p", "q", "r"])
    assert found == {"q": (sample(0),), "r": ()}
    assert len(problems) == 1
    assert problems[0].startswith(f"znode {path}: ")
    with caplog.at_level(logging.WARNING):
        assert record_sample(session, "p", sample(0))
    assert path in caplog.text
    assert history(session) == (sample(0),)


def test_the_history_of_a_peer_that_is_gone_is_swept(session: Session) -> None:
    record_sample(session, "p", sample(0))
    record_sample(session, "gone", sample(0))
    collect_garbage_of_gone_peers(session)
    assert history(session) == (sample(0),)
    assert session.zk.exists(session.own.history("gone")) is None
