"""The content of `pip install .`: the command, the plugin, the provider with its connection form, DAGs and Spark jobs."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from walferry import __version__
from walferry.airflow.options import OPTIONS
from walferry.airflow.provider import CONN_TYPE, HOOK_NAME, get_provider_info
from walferry.replication.source.connection import KNOWN_EXTRAS, from_connection
from walferry.replication.source.logins import LOGIN_FIELDS

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pyproject.toml", "MANIFEST.in", "README.md", "plugins", "dags", "spark_jobs", "monitoring")
DIST = f"walferry-{__version__}"
LOOK = """\
import json
from airflow.providers_manager import ProvidersManager

manager = ProvidersManager()
provider, widgets = manager.providers["walferry"], manager.connection_form_widgets
print(json.dumps({
    "version": provider.version, "hook": manager._hook_provider_dict["hbase_source"].hook_class_name,
    "fields": [name for name in widgets if name.startswith("extra__hbase_source__")],
    "behaviour": manager.field_behaviours["hbase_source"],
}))
"""
# Airflow's own command, several times in one process, as it takes seconds to start.
COMMANDS = """\
import contextlib, io, json, sys
from airflow.cli.cli_parser import get_parser

printed = []
for words in json.loads(sys.argv[1]):
    args = get_parser().parse_args(words)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        args.func(args)
    printed.append(out.getvalue())
print(json.dumps(printed))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the repo without any downloads."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out), str(copy)]
    subprocess.run(command, check=True, capture_output=True)
    (found,) = out.iterdir()
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes that find the package as pip installs it, and not the repo's package."""
    folder, home = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("home")
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", str(folder), str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    no_plugins = {"AIRFLOW__CORE__PLUGINS_FOLDER": str(home / "none"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    return {**environment, **no_plugins, "PYTHONPATH": str(folder), "AIRFLOW_HOME": str(home)}


def test_the_wheel_has_the_library_the_dags_the_spark_jobs_and_what_monitoring_needs(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("dags", "dags/examples", "spark_jobs", "monitoring"):
        files = {f"{DIST}.data/data/share/walferry/{folder}/{path.name}" for path in (ROOT / folder).glob("*.*")}
        assert files
        assert files <= names
    library = {path.relative_to(ROOT / "plugins").as_posix() for path in (ROOT / "plugins").rglob("*.py")}
    assert library <= names
    assert not [name for name in names if name.startswith(("tests", "bench", "embedded", "demo"))]


def test_the_wheel_needs_what_the_library_imports_and_nothing_of_development(wheel: Path) -> None:
    text = zipfile.ZipFile(wheel).read(f"{DIST}.dist-info/METADATA").decode()
    needed = [line.removeprefix("Requires-Dist: ") for line in text.splitlines() if line.startswith("Requires-Dist: ")]
    always = {line.split(">")[0].split("=")[0] for line in needed if "extra ==" not in line}
    assert {"click", "kazoo", "numba", "protobuf", "rich"} <= always
    assert not always & {"pytest", "mypy", "ruff", "apache-airflow", "pyspark"}
    locked = {line.split("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints-3.11.txt").read_text().splitlines()}
    assert always <= locked


def test_the_entry_points_are_the_command_the_plugin_and_the_provider(wheel: Path) -> None:
    points = configparser.ConfigParser(delimiters=("=",))
    points.read_string(zipfile.ZipFile(wheel).read(f"{DIST}.dist-info/entry_points.txt").decode())
    assert {name: dict(points[name]) for name in points.sections()} == {
        "console_scripts": {"walferry": "walferry.cli.main:main"},
        "airflow.plugins": {"walferry": "walferry_plugin:WalferryPlugin"},
        "apache_airflow_provider": {"provider_info": "walferry.airflow.provider:get_provider_info"},
    }


def test_airflow_finds_the_provider_with_its_connection_s_form(installed: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", LOOK], env=installed, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["version"] == __version__
    assert found["hook"] == "walferry.airflow.hooks.hbase.HBaseSourceHook"
    assert {name.removeprefix("extra__hbase_source__") for name in found["fields"]} == set(KNOWN_EXTRAS)
    assert found["behaviour"]["relabeling"]["host"] == "ZooKeeper quorum"


def test_airflow_s_command_shows_all_that_the_provider_brings(installed: dict[str, str]) -> None:
    asked = ("list", "hooks", "links", "triggers", "widgets", "behaviours")
    commands = [["providers", name, "-o", "json"] for name in asked]
    commands += [["providers", "get", "walferry", "--full", "-o", "json"]]
    commands += [["config", "list", "--section", "walferry", "--defaults", "--show-values"]]
    python = [sys.executable, "-c", COMMANDS, json.dumps(commands)]
    done = subprocess.run(python, env=installed, capture_output=True, text=True, check=True)
    *tables, config = json.loads(done.stdout.splitlines()[-1])
    found = {name: json.loads(table) for name, table in zip((*asked, "whole"), tables, strict=True)}
    info = get_provider_info()
    (whole,) = found["whole"]
    assert {**whole, "description": info["description"], "documentation-url": None} == {**info, "documentation-url": None}
    (listed,) = (each for each in found["list"] if each["package_name"] == "walferry")
    assert listed["description"].startswith("HBase https://hbase.apache.org/ replication")
    (hook,) = (each for each in found["hooks"] if each["connection_type"] == CONN_TYPE)
    assert (hook["conn_id_attribute_name"], hook["hook_name"]) == ("conn_id", HOOK_NAME)
    assert set(info["extra-links"]) <= {each["extra_link_class_name"] for each in found["links"]}
    triggers = {each["class"] for each in found["triggers"] if each["package_name"] == "walferry"}
    assert triggers == set(info["triggers"][0]["python-modules"])
    assert {f"extra__{CONN_TYPE}__{name}" for name in KNOWN_EXTRAS} == {
        each["connection_parameter_name"] for each in found["widgets"] if each["package_name"] == "walferry"
    }
    assert {"field_behaviours": CONN_TYPE} in found["behaviours"]
    assert all(f"# {name} = {each.default or ''}\n" in config for name, each in OPTIONS.items())


def test_airflow_loads_the_plugin_once(installed: dict[str, str]) -> None:
    code = "from airflow import plugins_manager as m; print(*m.get_timetables_plugins(), m.get_import_errors())"
    done = subprocess.run([sys.executable, "-c", code], env=installed, capture_output=True, text=True, check=False)
    assert "walferry.airflow.timetables.BackfillIntervals" in done.stdout, done.stderr
    assert done.stdout.rstrip().endswith("{}")  # neither the entry point nor the provider brings it a second time


def test_the_command_knows_its_version(installed: dict[str, str]) -> None:
    command = [sys.executable, "-m", "walferry.cli", "--version"]
    done = subprocess.run(command, env=installed, capture_output=True, text=True, check=True)
    assert done.stdout == f"walferry {__version__}\n"


def test_a_form_whose_fields_were_left_empty_is_a_connection() -> None:
    (connection,) = get_provider_info()["connection-types"]
    filled = dict.fromkeys(connection["conn-fields"]) | {"wal_root": "hdfs://nn:8020/hbase"}
    assert from_connection("zk1", 2181, filled) == from_connection("zk1", 2181, {"wal_root": "hdfs://nn:8020/hbase"})


def test_the_form_has_each_field_of_a_login_and_says_what_it_is() -> None:
    (connection,) = get_provider_info()["connection-types"]
    fields = connection["conn-fields"]
    assert {*LOGIN_FIELDS, "peer_clusters"} <= fields.keys()
    assert all(field["label"] and field["description"] for field in fields.values())
    assert not [name for name in fields if "password" in name and not name.endswith("_file")]
