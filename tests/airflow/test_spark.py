"""The project's use of spark-submit."""

import ast
import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import AirflowException

from walferry.airflow.hooks import spark as spark_module
from walferry.airflow.hooks.spark import WalferrySubmitHook

from .conftest import REPO


def _spark(monkeypatch: pytest.MonkeyPatch, connection: str | None, **conf: str) -> WalferrySubmitHook:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if connection:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
    return WalferrySubmitHook(conf=conf, conn_id="spark_default")


def _env_of(monkeypatch: pytest.MonkeyPatch, connection: str) -> dict[str, str]:
    hook = _spark(monkeypatch, connection)
    hook._build_spark_submit_command("job.py")
    assert hook._env is not None
    return hook._env


def _of_kubernetes() -> str:
    values = yaml.safe_load((REPO / "kubernetes/spark-values.yaml").read_text())
    (found,) = (each["value"] for each in values["scheduler"]["env"] if each["name"] == "AIRFLOW_CONN_SPARK_DEFAULT")
    return found


def test_the_connection_for_kubernetes_leads_to_its_api(monkeypatch):
    monkeypatch.setattr(spark_submit, "kube_client", "of the package for Kubernetes", raising=False)
    command = _spark(monkeypatch, _of_kubernetes())._build_spark_submit_command("job.py")
    assert command[command.index("--master") + 1] == "k8s://https://kubernetes.default.svc:443"
    assert not any("bindAddress" in word for word in command)  # which a local driver has


def test_a_master_of_kubernetes_without_the_package_that_airflow_needs_for_it_is_an_error_that_names_it(monkeypatch):
    monkeypatch.delattr(spark_submit, "kube_client", raising=False)
    with pytest.raises(AirflowException, match="needs the package apache-airflow-providers-cncf-kubernetes"):
        _spark(monkeypatch, _of_kubernetes())


def test_without_a_connection_spark_runs_on_this_machine(monkeypatch, airflow_db):
    command = _spark(monkeypatch, None)._build_spark_submit_command("job.py")
    assert command[command.index("--master") + 1] == "local[*]"


def test_a_local_job_does_not_listen_on_the_network_and_runs_this_python(monkeypatch):
    hook = _spark(monkeypatch, '{"conn_type": "spark", "host": "local[2]"}')
    command = hook._build_spark_submit_command("job.py")
    assert "spark.driver.bindAddress=127.0.0.1" in command
    assert "spark.ui.enabled=false" in command
    assert {**hook._env, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"} == hook._env


@pytest.mark.skipif(version("pyspark") != version("pyspark-client"), reason="a client of another version lies over PySpark")
def test_pip_s_spark_submit_starts_quickly_on_this_machine(monkeypatch, tmp_path):
    for name in ("SPARK_HOME", "SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    env = _env_of(monkeypatch, '{"conn_type": "spark", "host": "local[2]"}')
    assert Path(env["SPARK_HOME"]).parent == tmp_path
    assert env["SPARK_SUBMIT_OPTS"] == "-XX:TieredStopAtLevel=1"


def test_another_spark_submit_keeps_its_own_home(monkeypatch, tmp_path):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    _script(tmp_path / "spark-submit", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert _env_of(monkeypatch, '{"conn_type": "spark", "host": "local"}').keys() == {"PYSPARK_PYTHON", "SPARK_LOCAL_IP"}


def test_a_cluster_s_master_reaches_the_driver_and_chooses_its_workers_python(monkeypatch):
    hook = _spark(monkeypatch, '{"conn_type": "spark", "host": "spark://master", "port": 7077}')
    command = hook._build_spark_submit_command("job.py")
    assert command[command.index("--master") + 1] == "spark://master:7077"
    assert not [word for word in command if "127.0.0.1" in word or "ui.enabled" in word]
    assert not [word for word in command if word.startswith(("spark.pyspark.python", "spark.yarn.appMasterEnv"))]
    assert hook._env is None


def test_a_standalone_cluster_is_tried_if_any_of_its_masters_can_be_reached(monkeypatch, tmp_path):
    (tmp_path / "spark-submit").write_text("#!/bin/sh\necho started\n")
    (tmp_path / "spark-submit").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with socket.create_server(("127.0.0.1", 0)) as master:
        masters = f"spark://127.0.0.1:1,127.0.0.1:{master.getsockname()[1]}"
        hook = _spark(monkeypatch, json.dumps({"conn_type": "spark", "host": masters}))
        hook.submit("job.py")
    assert list(hook.last_lines) == ["started"]
    with pytest.raises(AirflowException, match=r"cannot be reached: nothing listens on 127.0.0.1:1 .*; nothing"):
        hook.submit("job.py")


def test_in_cluster_deploy_mode_nothing_of_this_machine_s_environment_is_sent(monkeypatch):
    hook = _spark(monkeypatch, '{"conn_type": "spark", "host": "spark://m", "port": 7077, "extra": {"deploy-mode": "cluster"}}')
    hook._build_spark_submit_command("job.py")
    assert hook._env is None


@pytest.mark.parametrize("host", ["local", "spark://m", "yarn", "k8s://https://k"])
def test_only_the_connection_or_given_settings_choose_where_the_driver_runs(monkeypatch, host):
    """A mode that spark-defaults.conf chose would not be known here: a driver that fails in a pod, say, would count as done."""
    monkeypatch.setattr(spark_submit, "kube_client", "of the package for Kubernetes", raising=False)
    connection = {"conn_type": "spark", "host": host, "extra": {}}
    for given, mode in ({}, "client"), ({"spark.submit.deployMode": "cluster"}, "cluster"):
        command = _spark(monkeypatch, json.dumps(connection), **given)._build_spark_submit_command("job.py")
        assert command[command.index("--deploy-mode") + 1] == mode
    connection["extra"] = {"deploy-mode": "cluster"}
    command = _spark(monkeypatch, json.dumps(connection))._build_spark_submit_command("job.py")
    assert command[command.index("--deploy-mode") + 1] == "cluster"


def test_the_connection_s_extra_may_have_settings_of_spark(monkeypatch):
    """So a connection says all about its cluster. What a job's operator gives comes first."""
    extra = {
        "deploy-mode": "cluster", "ui": "https://history", "spark.archives": "hdfs:///e.tar.gz#environment",
        "spark.executor.instances": 2, "spark.speculation": False, "spark.executor.memory": "1g",
    }  # fmt: skip
    connection = json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra})
    command = _spark(monkeypatch, connection, **{"spark.executor.memory": "2g"})._build_spark_submit_command("job.py")
    given = [word for word in command if word.startswith(("spark.archives", "spark.exec", "spark.spec", "ui", "deploy-mode"))]
    assert sorted(given) == [
        "spark.archives=hdfs:///e.tar.gz#environment", "spark.executor.instances=2", "spark.executor.memory=2g",
        "spark.speculation=false",
    ]  # fmt: skip


@pytest.mark.parametrize("host", ["spark://m", "yarn", "k8s://https://k"])
def test_a_driver_here_runs_airflow_s_python_whatever_its_executors_run(monkeypatch, host):
    """Otherwise spark.pyspark.python, which names the executors', would name the driver's. PYSPARK_DRIVER_PYTHON counts less."""
    monkeypatch.setattr(spark_submit, "kube_client", "of the package for Kubernetes", raising=False)
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    connection, name = {"conn_type": "spark", "host": host}, "spark.pyspark.driver.python"

    def chosen(**conf: str) -> list[str]:
        command = _spark(monkeypatch, json.dumps(connection), **conf)._build_spark_submit_command("job.py")
        return [word.partition("=")[2] for word in command if word.startswith(name)]

    assert chosen() == [sys.executable]
    assert chosen(**{name: "/python"}) == ["/python"]
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/other/python")
    assert chosen() == ["/other/python"]
    connection["extra"] = {"deploy-mode": "cluster"}
    assert chosen() == []


def test_pip_s_spark_submit_finds_its_own_spark_whatever_python_is_on_the_path(monkeypatch, tmp_path):
    """It would ask the `python3` of the PATH. The driver on the cluster gets none of this machine's paths."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    seen = {}
    monkeypatch.setattr(SparkSubmitHook, "submit", lambda hook, application, **options: seen.update(options))
    hook = _spark(monkeypatch, '{"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}')
    hook.submit("job.py")
    assert (Path(seen["env"]["SPARK_HOME"]) / "bin" / "spark-submit").exists()
    assert not [word for word in hook._build_spark_submit_command("job.py") if "SPARK_HOME" in word]
    _script(tmp_path / "spark-submit", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    hook.submit("job.py")
    assert "SPARK_HOME" not in seen["env"]


@pytest.mark.parametrize(("host", "may"), [("local[2]", False), ("spark://m", False), ("yarn", True)])
def test_clusters_that_may_run_drivers_themselves(monkeypatch, host, may):
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": host}))
    assert WalferrySubmitHook.may_run_drivers("spark_default") is may


def test_the_first_lines_name_the_application_and_a_job_s_own_lines_do_not(monkeypatch):
    hook = _spark(monkeypatch, '{"conn_type": "spark", "host": "yarn"}')
    ours, theirs = (f"tracking URL: http://{host}/proxy/application_1_0001/\n" for host in ("rm", "evil"))
    hook._process_spark_submit_log(iter(["starting\n", ours, theirs]))
    assert (hook.application.id, hook.application.url) == ("application_1_0001", "http://rm/proxy/application_1_0001/")


def test_a_job_on_this_machine_has_no_application_whatever_it_prints(monkeypatch):
    hook = _spark(monkeypatch, None)
    hook._process_spark_submit_log(iter(["tracking URL: http://evil/proxy/application_1_0001/\n"]))
    assert hook.application.id == ""


def test_a_task_ends_although_the_command_yarn_is_missing(monkeypatch):
    hook = _spark(monkeypatch, '{"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}')

    def missing(_: object) -> None:
        raise FileNotFoundError("yarn")

    monkeypatch.setattr(SparkSubmitHook, "on_kill", missing)
    hook.on_kill()


def test_executors_and_drivers_elsewhere_find_the_kdcs_as_airflow_does(monkeypatch):
    monkeypatch.setenv("KRB5_CONFIG", "/etc/walferry/krb5.conf")
    hook = _spark(monkeypatch, '{"conn_type": "spark", "host": "yarn"}', **{"spark.yarn.appMasterEnv.KRB5_CONFIG": "/other"})
    command = hook._build_spark_submit_command("job.py")
    assert {word for word in command if "KRB5_CONFIG" in word} == {
        "spark.executorEnv.KRB5_CONFIG=/etc/walferry/krb5.conf",
        "spark.yarn.appMasterEnv.KRB5_CONFIG=/other",
        "spark.kubernetes.driverEnv.KRB5_CONFIG=/etc/walferry/krb5.conf",
    }
    monkeypatch.delenv("KRB5_CONFIG")
    assert not [word for word in _spark(monkeypatch, None)._build_spark_submit_command("job.py") if "KRB5" in word]


def test_given_settings_override_the_defaults(monkeypatch):
    hook = _spark(monkeypatch, '{"conn_type": "spark", "host": "local"}', **{"spark.ui.enabled": "true"})
    assert "spark.ui.enabled=true" in hook._build_spark_submit_command("job.py")


@pytest.mark.parametrize("name", ["spark.yarn.submit.waitAppCompletion", "spark.kubernetes.submission.waitAppCompletion"])
def test_spark_submit_waits_for_a_job_on_a_cluster_whatever_is_set(monkeypatch, name):
    """It would end with 0 at once, and the task with it, before the job has begun."""
    command = _spark(monkeypatch, '{"conn_type": "spark", "host": "yarn"}', **{name: "false"})._build_spark_submit_command(
        "job.py"
    )
    assert [part for part in command if name in part] == [f"{name}=true"]


def test_a_job_that_is_too_long_for_yarn_s_command_is_refused_with_what_to_do(monkeypatch):
    connection = '{"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}'
    hook = _spark(monkeypatch, connection)
    hook._application_args = ["ship", "x" * spark_module.MAX_COMMAND_BYTES]
    with pytest.raises(
        AirflowException, match=r"the job has 98308 bytes.*Leave cluster mode out of the connection spark_default"
    ):
        hook.submit("job.py")


def test_bytes_that_are_not_text_in_spark_submit_s_output_do_not_end_the_task(monkeypatch, tmp_path):
    _script(tmp_path / "spark-submit", r"printf 'caf\351\n'; echo done")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    hook = _spark(monkeypatch, '{"conn_type": "spark", "host": "yarn"}')
    hook.submit("job.py")
    assert list(hook.last_lines) == ["caf\ufffd", "done"]


def test_spark_submit_is_found_beside_the_interpreter_if_it_is_not_on_the_path(monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    found = _spark(monkeypatch, '{"conn_type": "spark", "host": "local"}')._get_spark_binary_path()
    assert found == [str(Path(sys.executable).with_name("spark-submit"))]
    assert os.access(found[0], os.X_OK)


def test_spark_submit_of_the_path_comes_first(monkeypatch, tmp_path):
    _script(tmp_path / "spark-submit", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert _spark(monkeypatch, '{"conn_type": "spark", "host": "local"}')._get_spark_binary_path() == ["spark-submit"]


@pytest.mark.parametrize("on_term", ["echo cleaned up >&3; exit 143", ""], ids=["tidy", "deaf"])
def test_a_killed_task_ends_spark_submit_tidily_if_it_can_and_in_any_case(monkeypatch, tmp_path, on_term):
    _script(
        tmp_path / "spark-submit",
        f"exec 3>{tmp_path}/out; trap '{on_term}' TERM; echo started; while true; do read -t 0.1 < /dev/zero; sleep 0.1; done",
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("walferry.airflow.hooks.spark.TERMINATION_SECONDS", 1.0)
    hook = _spark(monkeypatch, '{"conn_type": "spark", "host": "local"}')
    failed: list[Exception] = []
    started = threading.Event()
    monkeypatch.setattr(hook, "_process_spark_submit_log", lambda lines: [started.set() for _ in lines])

    def submit() -> None:
        try:
            hook.submit("job.py")
        except AirflowException as e:
            failed.append(e)

    thread = threading.Thread(target=submit)
    thread.start()
    assert started.wait(30)
    hook.on_kill()
    thread.join(30)
    assert not thread.is_alive()
    assert hook._submit_sp.returncode == (143 if on_term else -9)
    assert (tmp_path / "out").read_text() == ("cleaned up\n" if on_term else "")
    assert failed


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_spark_submit_ends_with_a_task_that_is_killed_without_notice(tmp_path):
    _script(tmp_path / "spark-submit", f"trap 'touch {tmp_path}/ended; exit' TERM; echo $$; while true; do sleep 0.1; done")
    environ = {
        **os.environ,
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "PYTHONPATH": str(REPO / "plugins"),
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local"}',
    }
    code = (
        "from walferry.airflow.hooks.spark import WalferrySubmitHook as Hook\n"
        "hook = Hook(conf={}, conn_id='spark_default')\n"
        "hook._process_spark_submit_log = lambda lines: [print(line, flush=True) for line in lines]\n"
        "hook.submit('job.py')"
    )
    with subprocess.Popen([sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE, text=True) as task:
        pid = next(int(line) for line in task.stdout if line.strip().isdigit())
        task.kill()
    give_up = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and time.monotonic() < give_up:
        time.sleep(0.1)
    assert (tmp_path / "ended").exists()


def _script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_the_provider_has_the_private_names_that_the_hook_stands_on_and_it_stands_on_no_others():
    """The provider has no public way to end its process, to know its exit status, or to log its lines by their level."""
    known = {
        *(
            "_conf",
            "_conn_id",
            "_application_args",
            "_connection",
            "_env_vars",
            "_last_submit_log_lines",
            "_log",
            "_submit_sp",
        ),  # fields
        *("_get_spark_binary_path", "_mask_cmd", "_process_spark_submit_log"),  # methods
    }
    tree = ast.parse(Path(spark_module.__file__).read_text())
    theirs = {*dir(SparkSubmitHook())}
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} | own
    assert {name for name in used & theirs if name.startswith("_") and not name.startswith("__")} == known
