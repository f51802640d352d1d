"""kubernetes/: values of Airflow's chart, and the Spark Connect server next to it."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from embedded.spark_connect import MAIN, SETTINGS
from tests.compose_file import compose
from tests.unit.containers.kubernetes_objects import problems

FOLDER = Path(__file__).resolve().parents[3] / "kubernetes"
VALUES: dict[str, Any] = yaml.safe_load((FOLDER / "values.yaml").read_text("utf-8"))
KINDS: dict[str, dict[str, Any]] = {
    each["kind"]: each for each in yaml.safe_load_all((FOLDER / "spark-connect.yaml").read_text("utf-8"))
}
POD: dict[str, Any] = KINDS["Deployment"]["spec"]["template"]["spec"]
SERVER, TLS = POD["containers"]
FOR_TESTS = {"spark.log.level"}
SECRET = re.compile(r"pass(word)?$|secret$|token$|key$", re.IGNORECASE)
KEYS_OF_FILES = {"key", "secretKey", "ssl_certificate_key"}


def _leaves(value: object, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], object]]:
    if isinstance(value, dict):
        return [leaf for name, each in value.items() for leaf in _leaves(each, (*path, str(name)))]
    if isinstance(value, list):
        return [leaf for each in value for leaf in _leaves(each, path)]
    return [(path, value)]


@pytest.mark.parametrize("what", ["values", "server"])
def test_secrets_are_named_and_not_written_down(what: str) -> None:
    leaves = _leaves(VALUES if what == "values" else list(KINDS.values()))
    written = [path for path, value in leaves if path and SECRET.search(path[-1]) and path[-1] not in KEYS_OF_FILES and value]
    assert written == []
    assert "Secret" not in KINDS


def test_all_secrets_of_airflow_are_ones_made_beforehand() -> None:
    assert VALUES["data"]["metadataSecretName"]
    assert all(VALUES[name] for name in ("fernetKeySecretName", "apiSecretKeySecretName", "jwtSecretName"))
    assert not VALUES["createUserJob"]["enabled"]  # would take a password from here
    assert not VALUES["postgresql"]["enabled"]  # has one of its own


@pytest.mark.parametrize("part", ["scheduler", "triggerer", "dagProcessor", "apiServer", "migrateDatabaseJob"])
def test_each_part_of_airflow_asks_for_memory_and_is_limited(part: str) -> None:
    resources = VALUES[part]["resources"]
    assert resources["requests"]["memory"]
    assert resources["limits"]["memory"]


@pytest.mark.parametrize("container", [SERVER, TLS], ids=lambda each: str(each["name"]))
def test_each_container_of_the_server_is_limited_looked_at_and_locked_in(container: dict[str, Any]) -> None:
    assert {"requests", "limits"} == set(container["resources"])
    assert all(container[probe] for probe in ("startupProbe", "livenessProbe", "readinessProbe"))
    locked = container["securityContext"]
    assert locked["capabilities"] == {"drop": ["ALL"]}
    assert locked["readOnlyRootFilesystem"]
    assert not locked["allowPrivilegeEscalation"]
    assert locked["runAsUser"] > 0
    assert re.fullmatch(r"\S+:\d+\.\d+\.\d+\S*", container["image"])


def test_no_pod_of_airflow_runs_as_root() -> None:
    assert VALUES["securityContexts"]["pod"]["runAsNonRoot"]
    assert VALUES["securityContexts"]["container"]["capabilities"] == {"drop": ["ALL"]}
    assert VALUES["securityContexts"]["pod"]["runAsUser"] == 50000


def test_configuration_and_keys_can_only_be_read() -> None:
    mounts = [*VALUES["volumeMounts"], *SERVER["volumeMounts"], *TLS["volumeMounts"]]
    written = [mount["mountPath"] for mount in mounts if not mount.get("readOnly")]
    assert sorted(written) == ["/opt/airflow/cache", "/tmp", "/tmp"]


def test_each_mount_has_its_volume() -> None:
    mounted = {mount["name"] for each in (SERVER, TLS) for mount in each["volumeMounts"]}
    assert mounted == {each["name"] for each in POD["volumes"]}
    assert {mount["name"] for mount in VALUES["volumeMounts"]} == {each["name"] for each in VALUES["volumes"]}


def test_the_server_is_the_one_of_compose() -> None:
    tasks = re.compile(r"--master=local\[.*\]")
    here, there = ([tasks.sub("--master", word) for word in command] for command in (SERVER["args"], _of_compose()))
    assert here == there
    settings = dict(word.removeprefix("--conf=").split("=", 1) for word in here if word.startswith("--conf="))
    assert settings == {name: value for name, value in SETTINGS.items() if name not in FOR_TESTS}
    assert f"--class={MAIN}" in here


def _of_compose() -> list[str]:
    command: list[str] = compose()["services"]["spark-connect"]["command"]
    return command


def test_the_server_has_the_environment_of_compose() -> None:
    there = compose()["services"]["spark-connect"]["environment"]
    assert {each["name"] for each in SERVER["env"]} == set(there)
    same = ("PYTHONPATH", "SPARK_LOCAL_IP", "HADOOP_CONF_DIR", "KRB5_CONFIG")
    assert [each["value"] for each in SERVER["env"] if each["name"] in same] == [
        there[each["name"]] for each in SERVER["env"] if each["name"] in same
    ]


def test_only_the_scheduler_reaches_the_server_and_by_tls_only() -> None:
    (rule,) = KINDS["NetworkPolicy"]["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"tier": "airflow", "component": "scheduler"}}}]
    assert rule["ports"] == [{"protocol": "TCP", "port": "grpc-tls"}]
    assert "ports" not in SERVER  # it listens on the pod's localhost
    (port,) = TLS["ports"]
    nginx = KINDS["ConfigMap"]["data"]["nginx.conf"]
    assert f"listen {port['containerPort']} ssl;" in nginx
    assert "proxy_pass 127.0.0.1:15002;" in nginx


def test_labels_lead_from_service_policy_and_deployment_to_the_pod() -> None:
    labels = KINDS["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert KINDS["Service"]["spec"]["selector"] == labels
    assert KINDS["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    assert KINDS["Deployment"]["spec"]["selector"]["matchLabels"] == labels


def test_what_airflow_is_told_of_the_server_is_true() -> None:
    (entry,) = (each for each in VALUES["secret"] if each["envName"] == "AIRFLOW_CONN_SPARK_CONNECT")
    assert entry["secretName"] == "walferry-connections"
    lines = (FOLDER / "values.yaml").read_text("utf-8").splitlines()
    comment = next(line for line in lines if "AIRFLOW_CONN_SPARK_CONNECT" in line)
    reported = json.loads(comment.partition("#")[2].replace("…", '""'))
    assert reported["host"] == KINDS["Service"]["metadata"]["name"]
    assert reported["port"] == KINDS["Service"]["spec"]["ports"][0]["port"]
    assert reported["extra"] == {"use_ssl": True}


def test_the_api_server_lets_in_what_needs_it() -> None:
    assert VALUES["networkPolicies"]["enabled"]
    (rule,) = VALUES["apiServer"]["networkPolicy"]["ingress"]["from"]
    assert rule["podSelector"]["matchExpressions"][0]["values"] == ["scheduler", "triggerer", "dag-processor"]


def test_kubernetes_schemas_know_each_field_of_each_object() -> None:
    files = [path for path in FOLDER.glob("*.yaml") if path.name != "values.yaml"]
    assert {path.name: problems(yaml.safe_load_all(path.read_text("utf-8"))) for path in files} == {
        path.name: [] for path in files
    }


def _of_container(name: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda each: each["spec"]["template"]["spec"]["containers"][0].__setitem__(name, value)


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda each: each.__setitem__("apiVersion", "extensions/v1beta1"), "there is no schema of this kind"),
        (lambda each: each["spec"].__setitem__("replicas", "one"), "$.spec.replicas: 'one' is not of type 'integer'"),
        (lambda each: each["spec"].pop("selector"), "$.spec: 'selector' is a required property"),
        (_of_container("volumeMount", []), "'volumeMount' was unexpected"),
        (_of_container("resources", {}), "container spark-connect has no limit of memory"),
        (_of_container("volumeMounts", [{"name": "gone", "mountPath": "/gone"}]), "mounts what is no volume of its pod: gone"),
        (_of_container("securityContext", {}), "has rights that it does not need"),
        (lambda each: each["spec"]["template"]["spec"].pop("securityContext"), "it may run as root"),
    ],
)
def test_a_mistake_in_an_object_is_found(spoil: Callable[[dict[str, Any]], None], problem: str) -> None:
    spoilt = copy.deepcopy(KINDS["Deployment"])
    spoil(spoilt)
    (found,) = problems([spoilt])
    assert problem in found


def test_a_rendered_chart_is_checked_from_standard_input() -> None:
    command = [sys.executable, "-m", "tests.unit.containers.kubernetes_objects"]
    text = (FOLDER / "spark-connect.yaml").read_text("utf-8")
    for given, status, printed in (
        (text, 0, f"{len(KINDS)} objects, 0 problems\n"),
        (text.replace("replicas:", "replica:"), 1, f"{len(KINDS)} objects, 1 problems\n"),
        ("", 1, "0 objects, 0 problems\n"),  # nothing was rendered
    ):
        done = subprocess.run(command, input=given, cwd=FOLDER.parent, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.splitlines(keepends=True)[-1]) == (status, printed)
