"""The task of the DAG that checks connections. It logs each finding, and fails with the findings that are wrong."""

from __future__ import annotations

import logging
from itertools import chain

from walferry.airflow.endings import leave_note
from walferry.airflow.forms.run_checks import check_run
from walferry.airflow.hooks.spark_connect import CONNECT_CONN_ID, WalferryConnectHook
from walferry.airflow.literal import task
from walferry.airflow.tasks.common import source
from walferry.runs.failures import Failures

log = logging.getLogger(__name__)


class ConnectionFailures(Failures):
    """Something that a connection leads to does not work."""


@task
def check() -> None:
    """Check everything that the connections have to lead to."""
    from walferry.admin.diagnosis import source as checks
    from walferry.admin.diagnosis.spark import connect_server_findings

    context = check_run()
    wrong, count = [], 0
    peer = context["params"]["peer"]
    of_source = checks.check(source(), [peer] if peer else [])
    of_spark = connect_server_findings(WalferryConnectHook(CONNECT_CONN_ID).address)
    for finding in chain(of_source, of_spark):  # the server comes last: it may take its time
        count += 1
        if finding.severity == "wrong":
            wrong.append(finding.line)
            log.error("%s", finding.line)
        elif finding.severity == "note":
            log.warning("%s", finding.line)
        else:
            print(finding.line, flush=True)
    if wrong:
        raise ConnectionFailures(wrong, "see the log of the task check")
    leave_note(context, f"all {count} looks are well")
