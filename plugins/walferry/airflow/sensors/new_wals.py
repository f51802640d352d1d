"""A sensor for closed WALs that are new in a managed peer's queues."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from walferry.airflow.endings import ends_plainly
from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.sensors.base import PlainSensor
from walferry.airflow.triggers.new_wals import NewWalsTrigger, payload
from walferry.hbase.errors import ClusterError, PeerError
from walferry.replication.queues.new_wals import commit, find_new
from walferry.replication.source.cluster import SourceCluster, SourceError
from walferry.replication.source.session import open_session


class NewWalsSensor(PlainSensor):
    """Waits in the triggerer, without polling, until closed WALs that this sensor has not seen yet are queued for `peer`.

    A cursor in ZooKeeper, under `key` (by default `dag_id.task_id`), says what the sensor has seen. It moves on when the task
    succeeds, so after a crash the same WALs are announced again. Two runs of a DAG that wait at the same time get different WALs.

    Returns {"peer", "wals": how many, "newest": {group: timestamp in ms}}. It fails at once if the peer must not be shipped.

    :param peer: the id of a managed peer (templated)
    :param key: the name of the cursor (templated)
    """

    template_fields: Sequence[str] = ("peer", "key", "source_conn_id")

    def __init__(self, *, peer: str, key: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.peer = peer
        self.key = key

    @ends_plainly
    def execute(self, context: Context) -> dict[str, Any]:
        """Look once, and let the trigger wait."""
        try:
            with open_session(self._source()) as session:
                found = find_new(session, self.peer, self._key(context))
                if found is not None and commit(session, self.peer, self._key(context), found.newest):
                    return payload(self.peer, found)
        except (PeerError, ClusterError) as error:
            raise AirflowFailException(str(error)) from error
        return self._wait(context, until=time.time() + self.timeout)

    @ends_plainly
    def execute_complete(self, context: Context, event: dict[str, Any], until: float | None = None) -> dict[str, Any]:
        """Return what the trigger found, or wait on until the time `until` if another run has taken it.

        `dag.test()` loses `until`, because it resumes a task with the event only.
        """
        if "error" in event:
            raise AirflowFailException(event["error"])
        with open_session(self._source()) as session:
            if commit(session, self.peer, self._key(context), event["newest"]):
                return event
        self.log.info("another run took these WALs; waiting for the next")
        return self._wait(context, until or time.time() + self.timeout)

    def _wait(self, context: Context, until: float) -> dict[str, Any]:
        self.defer(
            trigger=NewWalsTrigger(self.peer, self._key(context), self.source_conn_id),
            method_name="execute_complete",
            kwargs={"until": until},
            timeout=max(0.0, until - time.time()),
        )

    def _key(self, context: Context) -> str:
        return self.key or f"{context['ti'].dag_id}.{context['ti'].task_id}"

    def _source(self) -> SourceCluster:
        try:
            return HBaseSourceHook(self.source_conn_id).get_conn()
        except SourceError as error:
            raise AirflowFailException(str(error)) from error
