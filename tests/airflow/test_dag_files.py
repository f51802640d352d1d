"""The DAG files as Airflow's DAG processor sees them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ENVIRON, REPO

HEAVY = ("pyspark", "kazoo", "numpy", "numba", "pyarrow", "pandas", "google.protobuf", "hdfs_native", "fsspec", "grpc")
PARSE = f"""
import json, sys
from airflow import settings
settings.initialize()
from airflow.dag_processing.dagbag import DagBag
before = set(sys.modules)
bag = DagBag({str(REPO / "dags")!r})
loaded = [name for name in {HEAVY!r} if name in set(sys.modules) - before]
print("RESULT" + json.dumps([bag.import_errors, sorted(bag.dags), loaded]))
"""
FORMS = f"""
import json
from airflow.dag_processing.dagbag import DagBag
bag = DagBag({str(REPO / "dags")!r})
print("RESULT" + json.dumps([
    [f"{{dag_id}}.{{name}}", dag.params.get_param(name).schema["type"], dag.params[name]]
    for dag_id, dag in sorted(bag.dags.items()) for name in dag.params
]))
"""
SCHEMAS = f"""
import json
from airflow.dag_processing.dagbag import DagBag
bag = DagBag({str(REPO / "dags")!r})
print("RESULT" + json.dumps({{
    dag_id: [[name, dag.params[name], dag.params.get_param(name).schema] for name in dag.params]
    for dag_id, dag in bag.dags.items()
}}))
"""
PLUGINS = """
import json, pathlib, sys
from airflow import plugins_manager, settings
settings.initialize()
before = set(sys.modules)
errors = plugins_manager.get_import_errors()
ours = {path.stem for path in pathlib.Path(settings.PLUGINS_FOLDER).glob("walferry/**/*.py")}
print("RESULT" + json.dumps([errors, sorted(ours & (set(sys.modules) - before))]))
"""


def _run(code: str) -> list:
    environ = {**os.environ, **ENVIRON}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.rpartition("RESULT")[2])


def test_all_dag_files_are_parsed_without_loading_what_is_slow_to_import():
    errors, dags, loaded = _run(PARSE)
    assert errors == {}
    shipping = {
        "replicate_peer",
        "regionserver_failover",
        "drain_recovered_queue",
        "replay_interval",
        "initial_snapshot",
        "hand_back_peer",
        "quarantine_wal",
    }
    watching = {"verify_peer", "retention", "watch_replication", "complete_hours", "check_connections"}
    assert shipping | watching | {"merge_changes", "region_transitions", "emergency_start", "region_master"} <= set(dags)
    assert loaded == []


def test_every_form_can_be_sent_as_it_opens():
    """Airflow's form takes a field for required unless its type has null (its documentation of Params says so), sends null for an
    empty one, and its button does nothing until all required ones are filled in."""
    fields = _run(FORMS)
    assert {"replicate_peer.peer", "drain_recovered_queue.queue"} <= {name for name, _, _ in fields}
    assert [name for name, types, value in fields if "null" not in types and value in (None, "")] == []
    assert [name for name, types, value in fields if "null" in types and value is not None] == []


def test_airflow_does_not_take_the_library_for_plugins():
    errors, modules = _run(PLUGINS)
    assert errors == {}
    assert modules == []


@pytest.mark.parametrize("path", sorted((REPO / "dags").glob("*.py")), ids=lambda path: path.name)
def test_dag_code_imports_airflow_through_its_sdk_only(path: Path):
    imports = re.findall(r"^\s*(?:from|import)\s+(airflow[\w.]*)", path.read_text(), re.MULTILINE)
    assert imports or path.name in ("sources.py", "complete_hours.py", "region_master.py")
    assert [name for name in imports if not re.match(r"airflow\.sdk\b", name)] == []


def _values(schema: dict) -> str:
    """Return a parameter's schema in the form of docs/params.md."""
    (kind,) = {schema["type"]} if isinstance(schema["type"], str) else set(schema["type"]) - {"null"}
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if kind in ("integer", "number"):
        bounds = " to ".join(str(schema[bound]) for bound in ("minimum", "maximum") if bound in schema)
        return f"{'whole number' if kind == 'integer' else kind} from {bounds}"
    kinds = {"boolean": "true, false", "array": "list of texts", "string": "text"}
    return "time" if schema.get("format") == "date-time" else kinds[kind]


def _default(value: object) -> str:
    return "empty" if value is None else f"`{value}`" if isinstance(value, str) else json.dumps(value)


def test_the_documentation_has_each_parameter_of_each_dag_with_its_default_and_its_values():
    _, *sections = re.split(r"(?m)^## ", (REPO / "docs/params.md").read_text().partition("\n## Settings in Airflow")[0])
    reported = {}
    for section in sections:
        rows = re.findall(r"(?m)^\| `(\w+)` \| (.*?) \| (.*?) \| (?=\w|`)", section)
        reported[section.splitlines()[0]] = {name: [default, values] for name, default, values in rows}
    dags = _run(SCHEMAS)
    assert len(dags) > 5
    assert reported == {
        dag: {name: [_default(value), _values(schema)] for name, value, schema in params} for dag, params in dags.items()
    }
    assert set(re.findall(r"(?m)^\| `(\w+)` \|", (REPO / "docs/run-a-dag.md").read_text())) == dags.keys()
