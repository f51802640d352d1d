"""The processes of an Airflow that tests have started."""

from __future__ import annotations

from contextlib import suppress

import psutil

from demo.airflow_standalone import Airflow


def processes_of(airflow: Airflow, part: str) -> list[psutil.Process]:
    """Return the processes that have a part's name, such as triggerer, in their command."""
    found = []
    for process in psutil.Process(airflow.pid).children(recursive=True):
        with suppress(psutil.Error):  # it may end meanwhile
            if any(part in word for word in process.cmdline()):
                found.append(process)
    return found
