"""kubernetes/: values of Airflow's chart, the Spark Connect server next to it, and executors of Spark as pods."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
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
ON_KUBERNETES: list[dict[str, Any]] = list(yaml.safe_load_all((FOLDER / "spark-on-kubernetes.yaml").read_text("utf-8")))
SPARK_VALUES: dict[str, Any] = yaml.safe_load((FOLDER / "spark-values.yaml").read_text("utf-8"))
SPARK_FILES: dict[str, str] = ON_KUBERNETES[0]["data"]
SPARK_CONF = dict(line.split(" ", 1) for line in SPARK_FILES["spark-defaults.conf"].splitlines() if line[:1] != "#")
EXECUTOR_POD: dict[str, Any] = yaml.safe_load(SPARK_FILES["spark-executor.yaml"])
(EXECUTOR,) = EXECUTOR_POD["spec"]["containers"]
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
    files = [path for path in FOLDER.glob("*.yaml") if not path.name.endswith("values.yaml")]
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


def _named(kind: str, name: str) -> dict[str, Any]:
    (found,) = (each for each in ON_KUBERNETES if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


def test_an_executor_s_pod_is_one_for_kubernetes_but_for_the_memory_that_spark_gives_it() -> None:
    assert problems([EXECUTOR_POD]) == ["Pod walferry-spark-executor: container spark-kubernetes-executor has no limit of memory"]
    assert SPARK_CONF["spark.executor.memory"]
    assert SPARK_CONF["spark.kubernetes.executor.podTemplateContainerName"] == EXECUTOR["name"]
    assert SPARK_CONF["spark.kubernetes.container.image"] == SERVER["image"]
    assert EXECUTOR["securityContext"]["readOnlyRootFilesystem"]


def test_an_executor_s_pod_has_the_mounts_and_the_user_of_the_connect_server() -> None:
    shared = [mount for mount in SERVER["volumeMounts"] if mount["name"] != "token"]
    assert EXECUTOR["volumeMounts"] == shared
    assert EXECUTOR_POD["spec"]["volumes"] == [each for each in POD["volumes"] if each["name"] in {one["name"] for one in shared}]
    assert EXECUTOR_POD["spec"]["securityContext"]["runAsUser"] == SERVER["securityContext"]["runAsUser"]
    assert EXECUTOR["workingDir"] in {mount["mountPath"] for mount in EXECUTOR["volumeMounts"] if not mount.get("readOnly")}
    assert {"HADOOP_CONF_DIR", "KRB5_CONFIG", "WALFERRY_CACHE"} <= {each["name"] for each in EXECUTOR["env"]}


def test_an_executor_s_command_is_the_image_s_entry_with_a_script_of_the_image() -> None:
    dockerfile = (FOLDER.parent / "Dockerfile").read_text("utf-8")
    *entry, script = EXECUTOR["command"]
    assert f"ENTRYPOINT {json.dumps(entry)}" in dockerfile
    assert re.search(rf"(?m)^COPY .*\bcontainers/{Path(script).name} {Path(script).parent}/$", dockerfile)


def test_spark_knows_each_setting_and_says_what_the_script_of_an_executor_reads() -> None:
    (jar,) = (Path(find_spec("pyspark").submodule_search_locations[0]) / "jars").glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as classes:
        config, constants = (classes.read(f"org/apache/spark/deploy/k8s/{name}$.class") for name in ("Config", "Constants"))
        assert "org/apache/spark/scheduler/cluster/k8s/KubernetesExecutorBackend.class" in classes.namelist()
    settings = [name for name in SPARK_CONF if name.startswith("spark.kubernetes.")]
    assert len(settings) > 5
    assert [name for name in settings if name.encode() not in config] == []
    read = re.findall(r"SPARK_\w+", (FOLDER.parent / "containers/spark-executor.sh").read_text("utf-8"))
    assert len(read) > 8
    assert [name for name in read if name.encode() not in constants] == []


def test_spark_s_settings_and_the_template_are_where_the_scheduler_has_them() -> None:
    (mount,) = SPARK_VALUES["scheduler"]["extraVolumeMounts"]
    (volume,) = SPARK_VALUES["scheduler"]["extraVolumes"]
    assert volume["configMap"]["name"] == "walferry-spark-on-kubernetes"
    assert mount["name"] == volume["name"]
    env = {each["name"]: each["value"] for each in SPARK_VALUES["scheduler"]["env"]}
    assert env["SPARK_CONF_DIR"] == mount["mountPath"]
    assert SPARK_CONF["spark.kubernetes.executor.podTemplateFile"] == f"{mount['mountPath']}/spark-executor.yaml"
    conn = json.loads(env["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert (conn["conn_type"], f"{conn['host']}:{conn['port']}") == ("spark", "k8s://https://kubernetes.default.svc:443")


def test_executors_call_a_driver_by_its_pod_s_address() -> None:
    """Spark would take the name that the pod's own /etc/hosts has for it, which no other pod can resolve."""
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    assert yaml.safe_load(SPARK_VALUES["extraEnv"]) == [{"name": "SPARK_LOCAL_HOSTNAME", "valueFrom": address}]


def test_drivers_may_start_pods_and_nothing_else_and_executors_reach_them() -> None:
    (rule,) = _named("Role", "walferry-spark-driver")["rules"]
    assert rule["resources"] == ["pods"]
    (subject,) = _named("RoleBinding", "walferry-spark-driver")["subjects"]
    assert subject["namespace"] == SPARK_CONF["spark.kubernetes.namespace"]
    scheduler, executor = (
        {"podSelector": {"matchLabels": labels}}
        for labels in ({"tier": "airflow", "component": "scheduler"}, EXECUTOR_POD["metadata"]["labels"])
    )
    to_driver, to_executor = (_named("NetworkPolicy", f"walferry-spark-{name}")["spec"] for name in ("driver", "executor"))
    assert (to_driver["podSelector"], to_driver["ingress"]) == (scheduler["podSelector"], [{"from": [executor]}])
    assert (to_executor["podSelector"], to_executor["ingress"]) == (executor["podSelector"], [{"from": [scheduler, executor]}])
