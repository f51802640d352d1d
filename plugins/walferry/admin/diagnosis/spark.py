"""Checks a Spark Connect server by a small job: whether its workers can do the work of batches, and how fast they begin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from walferry.base.findings import Finding, note, well, wrong
from walferry.base.texts import one_line
from walferry.jobs.archive import build_archive
from walferry.jobs.archive_entry import cache_folder

if TYPE_CHECKING:  # gRPC is imported only by those that use a server
    from walferry.jobs.connect.server import Address

KIND = "Spark Connect"
MAX_SHOWN_CHARS = 300


def connect_server_findings(find: Callable[[], Address | None]) -> Iterator[Finding]:
    """Check the server that `find` returns, if there is one. The job has the batches' session: it brings the library there.

    A server that was just started takes seconds for its first job.
    """
    try:
        if (address := find()) is not None:
            yield _finding(address)
    except Exception as error:  # whatever it is, the other findings count
        yield wrong(KIND, error if str(error) else type(error).__name__)


def _finding(address: Address) -> Finding:
    """Raises ConnectFailed, and OSError or RuntimeError if this machine has no place for the library."""
    from walferry.jobs.connect.probe import probe

    folder = cache_folder()
    found = probe(address, build_archive(folder / "archives"), folder / "connect")
    worker = found.worker
    where = f"a worker of {address} on {one_line(worker.host, MAX_SHOWN_CHARS)}"
    if worker.problem:
        return wrong(
            KIND, f"{where} cannot import the library: {one_line(worker.problem, MAX_SHOWN_CHARS)}",
            "Start the server with the Python and the packages of Airflow (docs/spark.md)",
        )  # fmt: skip
    text = f"{where} has Python {one_line(worker.python, MAX_SHOWN_CHARS)} and {worker.processors} processors"
    took = f"a job of one task took {found.seconds:.1f} s"
    if not worker.compiled_for:
        return note(
            KIND, f"{text}, but no compiled kernels; {took}", "`walferry compile --here`, next to Airflow, compiles them once"
        )
    return well(KIND, f"{text}, and kernels compiled for {worker.compiled_for}; {took}")
