"""Links on tasks in Airflow's UI: to the task's peer on the replication page, and to Spark's own UI.

Airflow's task runner stores an operator's links as XComs when the task has ended; an empty text gives no button.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import attrs
from airflow.sdk import BaseHook, BaseOperator, BaseOperatorLink, conf
from airflow.sdk.exceptions import AirflowNotFoundException

from walferry.airflow.page.links import URL_ROUTE, web_address

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

UI = "ui"  # in the extra of a connection to Spark: the address where Spark's jobs are shown

log = logging.getLogger(__name__)


def page_of(source: str, peer: str) -> str:
    """Return the address of the replication page with this peer's rows, below Airflow's own path."""
    path = urlsplit(conf.get("api", "base_url", fallback="/") or "/").path.rstrip("/")
    return f"{path}/plugin/{URL_ROUTE}/{URL_ROUTE}/replication?{urlencode({'source': source, 'peer': peer})}"


@attrs.define()
class ReplicationLink(BaseOperatorLink):
    """Leads to the peer on the replication page."""

    name = "Replication"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address; empty if the task does not know its peer yet."""
        shown: Mapping[str, str] = getattr(operator, "shown", None) or {}
        return page_of(**shown) if shown.get("peer") else ""


@attrs.define()
class SparkLink(BaseOperatorLink):
    """Leads to the UI that shows Spark's jobs: at the address in the job's connection, or else to the application on YARN.

    A job's driver has a UI only while the job runs, and a local driver has none. YARN leads on to the history server, if it
    knows one.
    """

    name = "Spark"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address; empty if no job was started, or no address is known."""
        conn_id = getattr(operator, "ran_through", "")
        if not conn_id:
            return ""
        try:
            given = BaseHook.get_connection(conn_id).extra_dejson.get(UI)
        except AirflowNotFoundException:
            given = None
        if given and not web_address(given):
            log.warning("connection %r: `%s` in its extra is not the address of a web page, so there is no link", conn_id, UI)
        return web_address(given) or web_address(getattr(operator, "tracked", ""))


LINKS = (ReplicationLink(), SparkLink())
