"""docker-compose.yaml: what holds for each service, read from the file alone."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml
from airflow import configuration
from airflow.cli import cli_parser

from embedded.java import jvm_options
from embedded.spark_connect import HOST, MAIN, SETTINGS
from tests.compose_file import FILE, REPO, compose, put_in, variables, words

SERVICES: dict[str, dict[str, Any]] = compose()["services"]
# They run to their end, so there is nothing to look at.
ENDING = ("airflow-init", "hbase-client")
SECRET = re.compile(r"PASSWORD|SECRET|TOKEN|FERNET|KEY$")
PINNED = re.compile(r"[\w./-]+:\d+\.\d+[\w.-]*(@sha256:[0-9a-f]{64})?")
OWN = ("walferry:local", "walferry-hbase:local")
ALSO_SECRET = {"AIRFLOW__API__SECRET_KEY_CMD", "AIRFLOW__API_AUTH__JWT_SECRET_CMD", "AIRFLOW__CORE__FERNET_KEY_CMD"}
FOR_TESTS = {"spark.log.level"}  # by which the tests see when the server is ready
FIELDS = {"http": 2, "tcp": 3, "connect": 1}


@pytest.fixture(params=sorted(SERVICES))
def service(request: pytest.FixtureRequest) -> dict[str, Any]:
    return SERVICES[request.param]


@pytest.fixture(params=sorted(name for name in SERVICES if name not in ENDING))
def lasting(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A service that stays up."""
    return SERVICES[request.param]


def test_the_file_is_of_composes_own_schema() -> None:
    check = [Path(sys.executable).with_name("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", FILE]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_service_has_a_limit_of_memory(service: dict[str, Any]) -> None:
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])


def test_no_service_has_rights_of_root(service: dict[str, Any]) -> None:
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert service.get("user", "postgres") == "postgres"  # all other images name their user themselves


def test_each_lasting_service_is_looked_at_and_starts_again(lasting: dict[str, Any]) -> None:
    look = lasting["healthcheck"]
    assert {"test", "interval", "timeout", "retries", "start_period"} <= set(look)
    assert lasting["restart"] == "unless-stopped"


def test_health_checks_are_ones_that_the_image_has(lasting: dict[str, Any]) -> None:
    command = words(lasting["healthcheck"]["test"])
    if command[:2] == ["sh", "-c"]:
        command = shlex.split(put_in(command[2], {}))
    match command:
        case ["python", "/opt/walferry/health.py", kind, *rest]:
            assert len([word for word in rest if "=" not in word]) + 1 == FIELDS[kind]
        case ["airflow", *rest]:
            cli_parser.get_parser().parse_args(rest)
        case [program, *_]:
            assert program in ("pg_isready", "getent")


def test_whatever_waits_for_health_waits_for_a_service_that_tells_it(service: dict[str, Any]) -> None:
    for name, how in service.get("depends_on", {}).items():
        assert how["condition"] == ("service_completed_successfully" if name in ENDING else "service_healthy")


def test_ports_are_this_machines_only(service: dict[str, Any]) -> None:
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert service.get("network_mode") in (None, "service:batch-host")


def test_images_are_pinned_or_built_here(service: dict[str, Any]) -> None:
    assert PINNED.fullmatch(service["image"]) or (service["image"] in OWN and service["build"]["target"] in ("walferry", "hbase"))


def test_configuration_and_keys_can_only_be_read(service: dict[str, Any]) -> None:
    mounts = [put_in(mount, {}) for mount in service.get("volumes", [])]
    assert all(mount.endswith(":ro") for mount in mounts if mount.startswith(("./", "/")))


def test_no_secret_has_a_default() -> None:
    assert {name for name, default in variables().items() if SECRET.search(name) and default is not None} == set()


def test_compose_refuses_to_go_on_without_a_secret() -> None:
    refused = set(re.findall(r"\$\{(\w+):\?", FILE.read_text("utf-8")))
    assert {secret["environment"] for secret in compose()["secrets"].values()} <= refused


def test_no_secret_is_in_the_environment_of_a_container(service: dict[str, Any]) -> None:
    for name, value in service.get("environment", {}).items():
        named = SECRET.search(name) and name not in ALSO_SECRET
        assert not named or name.endswith("_FILE"), f"{name} should be a file"
        asked = {found for found in re.findall(r"\$\{(\w+)", str(value)) if SECRET.search(found)}
        assert not asked, f"{name} holds {asked}"


def test_each_service_is_given_the_secrets_that_it_reads_and_no_more(service: dict[str, Any]) -> None:
    text = json.dumps([service.get("environment", {}), service.get("command", [])])
    assert set(re.findall(r"/run/secrets/(\w+)", text)) == set(service.get("secrets", []))


def test_the_example_of_env_has_what_the_file_asks_for() -> None:
    asked = set(re.findall(r"^(\w+)=", (REPO / ".env.example").read_text("utf-8"), re.MULTILINE))
    assert asked - {"COMPOSE_PROFILES"} == set(variables())


def test_settings_of_airflow_are_ones_that_it_knows() -> None:
    known = configuration.retrieve_configuration_description(include_providers=False)
    names = {name for service in SERVICES.values() for name in service.get("environment", {}) if name.startswith("AIRFLOW__")}
    assert names
    for name in names:
        _, section, key = name.lower().split("__")
        options = known[section]["options"]
        assert key in options or (key.endswith("_cmd") and options[key.removesuffix("_cmd")].get("sensitive")), name


def test_commands_of_airflow_are_ones_that_it_has(service: dict[str, Any]) -> None:
    command = service.get("command", [])
    if command[:1] == ["airflow"]:
        cli_parser.get_parser().parse_args(command[1:])


def test_the_connections_are_ones_that_airflow_can_read(service: dict[str, Any]) -> None:
    for name, value in service.get("environment", {}).items():
        if name.startswith("AIRFLOW_CONN_") and not value.startswith("$"):
            assert json.loads(value)["conn_type"] == "spark"


def test_batches_get_the_same_spark_connect_server_as_in_the_demo_and_the_tests() -> None:
    command = SERVICES["spark-connect"]["command"]
    settings = dict(word.removeprefix("--conf=").split("=", 1) for word in command if word.startswith("--conf="))
    assert settings == {name: value for name, value in SETTINGS.items() if name not in FOR_TESTS}
    assert f"--class={MAIN}" in command
    assert command[-1] == "spark-internal"
    assert SERVICES["spark-connect"]["environment"]["SPARK_LOCAL_IP"] == HOST


def test_the_scheduler_reaches_the_spark_connect_server_at_localhost_only() -> None:
    assert SERVICES["spark-connect"]["network_mode"] == SERVICES["airflow-scheduler"]["network_mode"] == "service:batch-host"
    assert SETTINGS["spark.connect.grpc.binding.address"] == HOST


@pytest.mark.parametrize(
    ("name", "jar", "file"),
    [
        ("spark-master", "spark-core", "org/apache/spark/deploy/master/MasterArguments.class"),
        ("spark-worker", "spark-core", "org/apache/spark/deploy/worker/WorkerArguments.class"),
        ("spark-connect", "spark-launcher", "org/apache/spark/launcher/SparkSubmitOptionParser.class"),
    ],
)
def test_sparks_options_are_ones_that_it_has(name: str, jar: str, file: str) -> None:
    (archive,) = (Path(pyspark.__file__).parent / "jars").glob(f"{jar}_*.jar")
    with zipfile.ZipFile(archive) as jar_file:
        known = jar_file.read(file)
    options = {word.partition("=")[0] for word in SERVICES[name]["command"] if word.startswith("--")}
    assert options
    assert [option for option in options if option.encode() not in known] == []


def test_a_volume_is_declared_for_each_that_is_mounted(service: dict[str, Any]) -> None:
    named = {mount.split(":")[0] for mount in service.get("volumes", []) if mount[0].isalpha()}
    assert named <= set(compose()["volumes"])


def test_hbase_starts_with_the_options_of_java_that_it_needs() -> None:
    script = (REPO / "containers" / "hbase.sh").read_text("utf-8")
    assert [option for option in jvm_options() if option not in script.split()] == []


def test_hbase_belongs_to_a_profile() -> None:
    belongs = {name for name, service in SERVICES.items() if service["image"] == "walferry-hbase:local"}
    assert {name for name, service in SERVICES.items() if service.get("profiles")} == belongs
    assert all(SERVICES[name]["profiles"] == ["hbase"] for name in belongs - set(ENDING))
    assert [sum(name.startswith(f"{side}-rs") for name in belongs) for side in ("source", "peer")] == [2, 2]


def test_each_server_of_hbase_is_found_by_the_name_of_its_service() -> None:
    site = (REPO / "containers" / "hbase-site.xml").read_text("utf-8")
    assert set(re.findall(r"\$\{env\.(\w+)\}", site)) == {"HBASE_CLUSTER", "HOSTNAME"}
    servers = {name: service for name, service in SERVICES.items() if service.get("profiles") == ["hbase"]}
    assert {name: service["hostname"] for name, service in servers.items()} == {name: name for name in servers}
    assert all(service["environment"] == {"HBASE_CLUSTER": name.split("-")[0]} for name, service in servers.items())


def test_the_example_connection_is_the_source_of_that_profile() -> None:
    line = next(line for line in (REPO / ".env.example").read_text("utf-8").splitlines() if "HBASE_SOURCE=" in line)
    connection = json.loads(shlex.split(line)[0].partition("=")[2])
    assert connection["host"] in SERVICES
    site = (REPO / "containers" / "hbase-site.xml").read_text("utf-8").replace("${env.HBASE_CLUSTER}", "source")
    assert f"<name>hbase.rootdir</name><value>{connection['extra']['wal_root']}</value>" in site
    assert f"<value>{connection['host']}</value>" in site


def test_the_merged_file_keeps_no_anchor_that_nothing_uses() -> None:
    text = FILE.read_text("utf-8")
    anchors = set(re.findall(r"&([\w-]+)", text))
    assert {name for name in anchors if not re.search(rf"\*{name}\b(?!-)", text)} == set()
    assert yaml.safe_load(text)
