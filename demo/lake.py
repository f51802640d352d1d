"""With LAKE=1: a second peer, whose edits go into a lake in a folder, and a query at the end.

The peer is made once both rounds are replicated. The DAG initial_snapshot copies what the tables have by then into the lake, and
the command ships a third round of edits there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from demo import commands
from demo.outcome import text_table
from embedded.processes import ClusterError

PEER, CATALOG = "lake", "lake"
QUERY = "SELECT type, count(*) AS cells, count(DISTINCT row) AS rows FROM {} GROUP BY type ORDER BY cells DESC"
# A cell of a WAL is named by its place there, and a cell of the first copy, which has none, by its key and its file's number.
NAME = 'wal, "offset", cell, row, family, qualifier, timestamp, type, sequence_id'
EACH_ONCE = f"SELECT count(*), count(DISTINCT ({NAME})) FROM changes"
SHIP_SECONDS = 120.0


def asked_for() -> bool:
    """Whether the demo is to have a lake."""
    return os.environ.get("LAKE") == "1"


def settings(folder: Path) -> dict[str, str]:
    """PyIceberg's configuration of a catalog in `folder`, as environment variables."""
    prefix = f"PYICEBERG_CATALOG__{CATALOG.upper()}__"
    folder.mkdir(parents=True, exist_ok=True)
    values = {"TYPE": "sql", "URI": f"sqlite:///{folder}/catalog.db", "WAREHOUSE": f"file://{folder}/warehouse"}
    return {prefix + name: value for name, value in values.items()}


def ship(connection: str) -> Iterable[str]:
    """Ship what is queued for the lake, and yield what the command says. A run of Airflow may ship a part of it."""
    give_up = time.monotonic() + SHIP_SECONDS
    while True:
        said = commands.walferry(connection, "ship", PEER, may_end_with=(0, 1)).rstrip()
        yield said
        if commands.as_json(connection, "plan", PEER)["groups"] == []:
            return
        if time.monotonic() > give_up:
            raise ClusterError(f"the lake has not got all edits within {SHIP_SECONDS:.0f} s; `walferry ship {PEER}` says why")
        time.sleep(1)


def query(environment: Mapping[str, str], tables: Iterable[str]) -> tuple[bool, list[str]]:
    """Query the tables of changes with DuckDB. Returns whether each cell is there once, and lines to show."""
    catalog = load_catalog(CATALOG, **{name.rpartition("__")[2].lower(): value for name, value in environment.items()})
    lines, holds = list[str](), False
    for table in tables:
        name = f"default.{table}_changes"
        try:
            files = [task.file.file_path.removeprefix("file://") for task in catalog.load_table(name).scan().plan_files()]
        except NoSuchTableError:
            continue
        changes: Any = duckdb.connect().read_parquet(files, hive_partitioning=False)
        ((cells, distinct),) = changes.query("changes", EACH_ONCE).fetchall()
        holds = cells == distinct
        rows = changes.query("changes", QUERY.format("changes")).fetchall()
        lines += [f"duckdb> {QUERY.format(name)}"]
        lines += text_table([("type", "cells", "rows"), *((kind, f"{n:,}", f"{m:,}") for kind, n, m in rows)], right=(1, 2))
        lines += [f"  {cells:,} cells, each once" if holds else f"  WRONG: {cells:,} cells, of which {distinct:,} differ"]
        if not holds:
            return False, lines
    return holds, lines
