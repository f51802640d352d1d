"""Calls of Airflow's API on a machine that is too busy to answer each of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from demo import airflow_standalone
from demo.airflow_standalone import Airflow, AirflowError

Answer = httpx.Response | Exception


@pytest.fixture
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[Airflow, list[httpx.Request]]]]:
    """Makes an Airflow that answers one call after the other as told, and the list of the calls that it gets."""
    monkeypatch.setattr(airflow_standalone, "CALLS_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(airflow_standalone.time, "sleep", lambda _: None)

    def make(*answers: Answer) -> tuple[Airflow, list[httpx.Request]]:
        left, got = list(answers), []

        def answer(request: httpx.Request) -> httpx.Response:
            got.append(request)
            found = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(found, Exception):
                raise found
            return httpx.Response(found.status_code, content=found.content, request=request)

        made = Airflow(tmp_path, {})
        made._client = httpx.Client(base_url=made.url, transport=httpx.MockTransport(answer))
        return made, got

    return make


BUSY = (httpx.ReadTimeout("timed out"), httpx.Response(503), httpx.ConnectError("refused"))


def test_a_call_that_only_asks_is_made_again(airflow) -> None:
    asked, got = airflow(*BUSY, httpx.Response(200, json={"is_paused": True}))
    assert asked.details("d") == {"is_paused": True}
    assert len(got) == 4


def test_a_run_that_is_triggered_twice_as_the_first_answer_was_lost_is_one_run(airflow) -> None:
    asked, got = airflow(httpx.ReadTimeout("timed out"), httpx.Response(409, json={"detail": "it is there"}))
    run_id = asked.trigger("d", {"peer": "p"})
    assert [json.loads(request.content)["dag_run_id"] for request in got] == [run_id, run_id]


def test_a_conflict_at_the_first_try_is_told(airflow) -> None:
    asked, _ = airflow(httpx.Response(409, text="another one has it"))
    with pytest.raises(AirflowError, match="Airflow answered 409 another one has it"):
        asked.trigger("d", {"peer": "p"})


def test_what_would_do_harm_when_done_twice_is_not_done_again(airflow) -> None:
    asked, got = airflow(httpx.ReadTimeout("timed out"))
    with pytest.raises(AirflowError, match="timed out"):
        asked.clear("d", "r", "t")
    assert len(got) == 1


def test_an_airflow_that_has_ended_is_told_at_once(airflow) -> None:
    asked, got = airflow(*BUSY)
    asked._process = subprocess.Popen(["true"])
    asked._process.wait()
    with pytest.raises(AirflowError, match="Airflow has ended before it answered GET"):
        asked.details("d")
    assert len(got) == 1


def test_what_is_not_there_is_none_and_a_refusal_is_told_at_once(airflow) -> None:
    assert airflow(httpx.Response(404))[0].details("d") == {}
    asked, got = airflow(httpx.Response(403, text="you may not"))
    with pytest.raises(AirflowError, match="GET /api/v2/dags/d/details: Airflow answered 403 you may not") as refused:
        asked.details("d")
    assert len(got) == 1
    assert "\n" not in refused.value.problem


def test_an_airflow_that_never_answers_is_given_up_in_one_sentence_and_later_on_a_slow_machine(airflow) -> None:
    asked, got = airflow(*BUSY)
    with pytest.raises(AirflowError) as error:
        asked.details("d")
    assert error.value.problem == "Airflow did not do GET /api/v2/dags/d/details within 0 s: refused"
    asked.slowness = 4.0
    with pytest.raises(AirflowError, match="within 2 s"):
        asked.details("d")
    assert len(got) > len(BUSY)
