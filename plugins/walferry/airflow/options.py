"""The options that Walferry reads from Airflow's configuration.

They are in section [walferry], or in variables such as AIRFLOW__WALFERRY__SOURCES. If pip has installed Walferry, Airflow knows
them through the provider: `airflow config list --section walferry`. Their defaults hold without pip, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from walferry.replication.source.cluster import DEFAULT_CONN_ID

SECTION = "walferry"


@dataclass(frozen=True)
class Option:
    """What an option is for, its default if it has one, and a value that a user may give it."""

    description: str
    default: str | None
    example: str | None = None


OPTIONS = {
    "sources": Option(
        "The connections of the source clusters, separated by commas. Each of them has DAGs of its own.",
        DEFAULT_CONN_ID,
        "hbase_source,west",
    ),
    "replay_intervals": Option("A cron expression, in UTC: the intervals of backfills of the DAG replay_interval.", "0 * * * *"),
    "replicate_schedule": Option(
        "When the DAG replicate_peer runs even if nothing was announced: a cron expression, in UTC. Behind semicolons a source "
        "may have one of its own.",
        "0 * * * *",
        "0 * * * *; west=*/5 * * * *",
    ),
    "watch_schedule": Option(
        "When the DAG watch_replication runs: a cron expression. Behind semicolons a source may have one of its own.", "* * * * *"
    ),
    "region_masters": Option(
        "The connections of source clusters of HBase 1, separated by commas, of which the DAG region_master keeps the master's "
        "role while no HMaster is active. For others it runs by hand only.",
        None,
        "legacy",
    ),
    "region_master_address": Option(
        "The host, or host:port, under which RegionServers and clients reach such a run. Empty: the worker's full name, and any "
        "free port. Behind semicolons a source may have one of its own.",
        None,
        "worker1.example.org:16000",
    ),
    "docs": Option(
        "The http or https address of Walferry's docs, as `make docs` builds them. The replication page's notices link to their "
        "runbooks there.",
        None,
        "https://docs.example.org/walferry/",
    ),
    "spark_jobs": Option(
        "The folder of the scripts that spark-submit runs, if it lies neither beside the folder plugins nor in share/walferry of "
        "the environment.",
        None,
        "/opt/walferry/spark_jobs",
    ),
    "approvers": Option(
        "Ids of the users, separated by commas, who may approve what cannot be undone, such as the deletion of a queue. "
        "They are those of Airflow's auth manager; with the simple one, the names. Empty: all who may act on the DAG's required "
        "actions.",
        None,
        "ola,per",
    ),
    "approval_hours": Option("For how many hours a run waits for that. Then nothing is done.", "24"),
    "notifiers": Option(
        "Dotted path of a notifier, or of a list of notifiers, that watch_replication calls.", None, "company.alerts.REPLICATION"
    ),
}


def option(name: str) -> str:
    """Return an option's value; else its default; else an empty text."""
    from airflow.sdk import conf

    value: str = conf.get(SECTION, name, fallback=OPTIONS[name].default or "")
    return value


def descriptions() -> dict[str, dict[str, str | None]]:
    """Return the options as the metadata of a provider describes them."""
    return {
        name: {
            "description": each.description, "version_added": None, "type": "string", "example": each.example,
            "default": each.default,
        }
        for name, each in OPTIONS.items()
    }  # fmt: skip
