"""People who decide about what runs ask, through the function of Airflow's API, in a thread of the test."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

POLL_SECONDS = 0.2


@contextmanager
def person(answer: str, name: str = "ola") -> Iterator[list[Any]]:
    """While the block runs, a person answers each request so. The list contains the requests as Airflow shows them."""
    seen: list[Any] = []
    failed: list[Exception] = []
    done = threading.Event()
    importlib.import_module("airflow.api_fastapi.core_api.routes.public.hitl")  # not beside what the run imports

    def look() -> None:
        while not done.wait(POLL_SECONDS):
            try:
                seen.extend(_answer_all(answer, name))
                failed.clear()
            except Exception as error:  # the run's own process may have locked the database
                failed[:] = [error]

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()
        if failed:
            raise failed[0]


def _answer_all(answer: str, name: str) -> list[Any]:
    from airflow.api_fastapi.core_api.datamodels.hitl import UpdateHITLDetailPayload
    from airflow.api_fastapi.core_api.routes.public.hitl import update_hitl_detail
    from airflow.models.hitl import HITLDetail
    from airflow.utils.session import create_session
    from sqlalchemy import select

    user: Any = SimpleNamespace(get_id=lambda: name, get_name=lambda: name)
    payload = UpdateHITLDetailPayload(chosen_options=[answer])
    answered = []
    with create_session() as session:
        for asked in session.scalars(select(HITLDetail)).all():
            ti = asked.task_instance
            if not asked.response_received and ti.state == "awaiting_input":
                answered.append(SimpleNamespace(subject=asked.subject, body=asked.body))
                update_hitl_detail(ti.dag_id, ti.run_id, ti.task_id, payload, user, session, ti.map_index)
    return answered
