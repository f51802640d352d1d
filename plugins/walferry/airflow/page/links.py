"""Addresses of Airflow's own pages, and of runbooks in Walferry's docs.

Names of runs come from ZooKeeper, so only valid names of a DAG and a run are linked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit

SHIPS = "peer.ship"  # the task that ships, in a run of a source's REPLICATE
REPLICATE = "replicate_peer"
URL_ROUTE = "walferry"  # the page's route in Airflow's UI
MAX_RUN_CHARS = 250  # Airflow's own limit for names of DAGs and of runs
MAX_CHARS = 2000  # of an address
_DAG = re.compile(r"[\w-][\w.-]*", re.ASCII)
_TRY = re.compile(r"\.\d+$")


def web_address(text: object) -> str:
    """Return the text if it is the address of a web page, else an empty text. Scripts, files and passwords are not."""
    if not isinstance(text, str) or len(text) > MAX_CHARS or not all("!" <= char <= "~" for char in text):
        return ""
    try:
        parts = urlsplit(text)
        well = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None and parts.port != 0
    except ValueError:
        return ""
    return text if well else ""


@dataclass(frozen=True)
class RunLink:
    """A run of a DAG, and its address in Airflow with the logs of the task that ships; None if that task's name is not known."""

    dag_id: str
    run_id: str
    href: str
    logs: str | None


@dataclass(frozen=True)
class Runbook:
    """A runbook of Walferry's docs, and its address if the docs have one."""

    title: str
    file: str
    href: str | None


_FOLDER = "docs/runbooks"
_RUNBOOKS = {
    "stuck-peer": "A peer is stuck",
    "peer-cluster-down": "A peer cluster is down",
    "recovered-queue": "A dead server's queue",
    "oldwals-growing": "oldWALs grows",
    "regions-stuck": "Regions are stuck",
}


@dataclass(frozen=True)
class Links:
    """Makes addresses below `root`, the path of Airflow's base URL, which ends with a slash, and below Walferry's docs."""

    root: str
    docs: str = ""

    def runbook_of(self, kind: str) -> Runbook:
        """Return the runbook for a peer's finding of this kind."""
        return self.runbook("peer-cluster-down" if kind == "peer-down" else "stuck-peer")

    def runbook(self, name: str) -> Runbook:
        """Return a runbook by its name."""
        docs = web_address(self.docs)
        href = f"{docs.rstrip('/')}/runbooks/{name}.html" if docs else None
        return Runbook(_RUNBOOKS[name], f"{_FOLDER}/{name}.md", href)

    def dag(self, dag_id: str) -> str:
        """Return the address of a DAG's page, with the button that opens its form."""
        return f"{self.root}dags/{quote(dag_id, safe='')}"

    def run(self, name: str, *, with_try: bool) -> RunLink | None:
        """Return the run that a note names "DAG/run", or "DAG/run.try" if `with_try`; None if the name is not valid."""
        from walferry.airflow.sources import common_name  # each of Airflow's processes imports this module for its URL_ROUTE

        dag_id, _, run_id = name.partition("/")
        run_id = _TRY.sub("", run_id) if with_try else run_id
        if not _DAG.fullmatch(dag_id) or len(name) > 2 * MAX_RUN_CHARS or run_id in ("", ".", "..") or not run_id.isprintable():
            return None
        href = f"{self.dag(dag_id)}/runs/{quote(run_id, safe='')}"
        return RunLink(dag_id, run_id, href, f"{href}/tasks/{SHIPS}/mapped" if common_name(dag_id) == REPLICATE else None)

    def login(self, *, framed: bool) -> str:
        """Return Airflow's login, which leads back to the page: to the page alone if Airflow's frame for it has asked."""
        page = f"{self.root}{URL_ROUTE}/replication" if framed else f"{self.root}plugin/{URL_ROUTE}"
        return f"{self.root}api/v2/auth/login?" + urlencode({"next": page})
