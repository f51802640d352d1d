"""A job is followed to its end over broken connections, given up when it is lost, and ended when its client leaves it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, SupportsIndex

import pytest

from tests.unit.jobs.connect.fake_connect import Broken, Fake, Silence, complete, progress, row
from walferry.base.protos import spark_connect_pb2 as messages
from walferry.jobs.connect import execution as module
from walferry.jobs.connect import server
from walferry.jobs.connect.errors import ConnectFailed, Interrupted, OperationLost, ServerGone
from walferry.jobs.connect.execution import AWAY_SECONDS, RETRY_SECONDS, Execution, interrupt_tag
from walferry.jobs.connect.plan import plan_of
from walferry.jobs.connect.server import Server
from walferry.jobs.connect.sessions import Session

ID = "9fb6e74d-b650-591d-ad1f-b6765de64b7f"
PLAN = plan_of(3, 8, b"pickle", "text")


class Clock:
    """Stands still while something runs, and goes on at once by what it should sleep."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def session(fake: Fake) -> Iterator[Session]:
    with Server(fake.address) as connected:
        yield Session(connected, ID)


def run(session: Session) -> list[bytes]:
    return list(Execution(session, PLAN, "tag").run())


def test_a_job_s_rows_come_and_then_the_server_forgets_it(fake: Fake, session: Session) -> None:
    fake.streams = [[progress("1"), row(b"a", "2"), row(b"b", "3"), complete()]]
    assert run(session) == [b"a", b"b"]
    (asked,), (released,) = fake.calls("ExecutePlan"), fake.calls("ReleaseExecute")
    assert (asked.session_id, asked.user_context.user_id, list(asked.tags)) == (ID, "walferry", ["tag"])
    assert asked.plan == PLAN
    assert asked.request_options[0].reattach_options.reattachable
    assert released.operation_id == asked.operation_id
    assert not fake.calls("Interrupt")


def test_it_knows_how_many_tasks_have_ended(fake: Fake, session: Session) -> None:
    rows = [row(name, "r") for name in (b"a", b"b", b"c")]
    fake.streams = [[rows[0], progress("1", (7, 3, 4)), rows[1], progress("2", (8, 1, 2), (7, 4, 4)), rows[2], complete()]]
    execution = Execution(session, PLAN, "tag")
    assert [execution.ended_tasks for _ in execution.run()] == [0, 3, 5]


@pytest.mark.parametrize("end", [[], [Broken()]], ids=["ended early", "broken"])
def test_a_stream_that_ends_before_the_job_is_gone_on_with(fake: Fake, session: Session, end: list[Exception]) -> None:
    fake.streams = [[row(b"a", "1"), *end], [*end], [row(b"b", "2"), complete()]]
    assert run(session) == [b"a", b"b"]
    assert [request.last_response_id for request in fake.calls("ReattachExecute")] == ["1", "1"]
    assert {request.operation_id for request in fake.calls("ReattachExecute")} == {fake.calls("ExecutePlan")[0].operation_id}


def test_a_server_that_stays_away_is_gone(fake: Fake, session: Session) -> None:
    fake.streams = [[progress("1")], *([Broken()] for _ in range(1000))]
    with pytest.raises(ServerGone, match="Connection reset by peer"):
        run(session)


class Streams(list[Any]):
    """The first stream, and then others without end."""

    def __init__(self, first: list[Any], then: Callable[[], Iterable[Any]]) -> None:
        super().__init__([first])
        self._then = then

    def pop(self, at: SupportsIndex = -1) -> Any:
        return super().pop(at) if self else self._then()


def test_a_server_that_ends_each_stream_at_once_is_not_asked_for_ever(fake: Fake, session: Session) -> None:
    fake.streams = Streams([progress("1")], list)
    with pytest.raises(ServerGone, match="ends each stream of the job, not the job"):
        run(session)
    assert len(fake.calls("ReattachExecute")) == AWAY_SECONDS / RETRY_SECONDS + 1  # with a pause before each


@pytest.mark.parametrize("first", [[], [progress("1")]], ids=["from the beginning", "after a word"])
def test_a_job_of_which_there_is_nothing_to_say_goes_on(
    fake: Fake, session: Session, monkeypatch: pytest.MonkeyPatch, first: list[messages.ExecutePlanResponse]
) -> None:
    monkeypatch.setattr(server, "STREAM_SECONDS", 0.2)

    def after_silence() -> list[Any]:
        asked = fake.calls("ReattachExecute")
        if len(asked) < 3:
            return [Silence()]
        return [complete()] if asked[-1].last_response_id == "2" else [row(b"a", "2"), complete()]

    fake.streams = Streams([*first, Silence()], after_silence)
    assert run(session) == [b"a"]
    assert len(fake.calls("ReattachExecute")) >= 3


def test_a_server_that_says_nothing_at_all_any_more_is_gone(
    fake: Fake, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "STREAM_SECONDS", 0.2)
    monkeypatch.setattr(server, "CALL_SECONDS", 0.2)
    monkeypatch.setattr(fake, "silent", True)
    fake.streams = Streams([progress("1"), Silence()], lambda: [Silence()])
    with pytest.raises(ServerGone):
        run(session)


def test_a_job_that_is_ended_while_the_server_is_away_is_not_asked_for_again(fake: Fake, session: Session) -> None:
    execution = Execution(session, PLAN, "tag")

    def away() -> Iterator[Exception]:
        execution.interrupt(session.server)
        yield Broken()

    fake.streams = [itertools.chain([progress("1")], away())]  # type: ignore[list-item]
    with pytest.raises(Interrupted):
        list(execution.run())
    assert not fake.calls("ReattachExecute")


def test_a_job_that_is_ended_before_it_is_sent_is_not_sent(fake: Fake, session: Session) -> None:
    execution = Execution(session, PLAN, "tag")
    execution.interrupt(session.server)
    with pytest.raises(Interrupted):
        list(execution.run())
    assert not fake.calls("ExecutePlan")


def test_a_job_that_may_never_have_arrived_is_not_gone_on_with(fake: Fake, session: Session) -> None:
    fake.streams = [[Broken()]]
    with pytest.raises(ServerGone):
        run(session)
    assert not fake.calls("ReattachExecute")
    assert fake.calls("Interrupt")[0].operation_id == fake.calls("ExecutePlan")[0].operation_id  # if it has, it ends


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("[INVALID_HANDLE.OPERATION_NOT_FOUND] The handle x is invalid.", OperationLost),
        ("[INVALID_HANDLE.SESSION_NOT_FOUND] The handle x is invalid.", OperationLost),
        ("[INVALID_HANDLE.OPERATION_ABANDONED] The handle x is invalid.", OperationLost),
        ("[OPERATION_CANCELED] Operation has been canceled.", Interrupted),
        ("Job aborted due to stage failure: Python worker exited unexpectedly", ConnectFailed),
    ],
)
def test_a_job_that_cannot_be_gone_on_with_says_why(fake: Fake, session: Session, said: str, error: type[Exception]) -> None:
    fake.streams = [[progress("1")], [Exception(said)]]
    with pytest.raises(error) as raised:
        run(session)
    assert type(raised.value) is error
    assert said in str(raised.value)


def test_a_job_that_is_left_is_ended(fake: Fake, session: Session) -> None:
    fake.streams = [[row(b"a", "1"), row(b"b", "2"), complete()]]
    rows = Execution(session, PLAN, "tag").run()
    assert list(itertools.islice(rows, 1)) == [b"a"]
    rows.close()
    (ended,) = fake.calls("Interrupt")
    assert ended.interrupt_type == messages.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID
    assert ended.operation_id == fake.calls("ExecutePlan")[0].operation_id


def test_all_jobs_of_a_tag_can_be_ended(fake: Fake, session: Session) -> None:
    assert interrupt_tag(session, "tag") == 1
    (asked,) = fake.calls("Interrupt")
    assert (asked.interrupt_type, asked.operation_tag) == (messages.InterruptRequest.INTERRUPT_TYPE_TAG, "tag")
