"""What is killed on a real YARN: an executor, the application master with Spark's driver, and the task itself."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowException

from embedded.yarn import kill
from tests.cluster.peer_changes import reconfigure
from tests.cluster.test_peers_that_change import with_bandwidth
from tests.yarn.conftest import CLUSTER, MODES, TEST_SECONDS, Backlog, OnYarn, await_that, ship

BYTES_A_SECOND = 5_000  # the backlog has some 30 times as many


@pytest.fixture(autouse=True)
def slowly(backlog: Backlog) -> None:
    reconfigure(backlog.address, backlog.peer, with_bandwidth(BYTES_A_SECOND))


@pytest.mark.timeout(TEST_SECONDS)
@CLUSTER
def test_the_tasks_of_an_executor_that_is_killed_run_again(on_yarn: OnYarn, backlog: Backlog) -> None:
    running = on_yarn.start(on_yarn.operator(), ship(backlog))
    kill(running.container(master=False))
    running.finish()
    backlog.check_shipped()
    assert running.state["finalStatus"] == "SUCCEEDED", on_yarn.told()
    assert sum(log.count("Running task") for log in on_yarn.yarn.container_logs(running.application).values()) > 1


@pytest.mark.timeout(TEST_SECONDS)
@CLUSTER
def test_yarn_goes_on_with_a_job_whose_application_master_is_killed(on_yarn: OnYarn, backlog: Backlog) -> None:
    running = on_yarn.start(on_yarn.operator(), ship(backlog))
    kill(running.container(master=True))
    running.finish()
    backlog.check_shipped()
    assert running.state["finalStatus"] == "SUCCEEDED", on_yarn.told()
    attempts = {name.split("_")[-2] for name in on_yarn.yarn.container_logs(running.application)}
    assert attempts == {"01", "02"}


@pytest.mark.timeout(TEST_SECONDS)
@MODES
def test_an_application_ends_with_its_killed_task_and_the_next_try_goes_on(on_yarn: OnYarn, backlog: Backlog, mode: str) -> None:
    operator = on_yarn.operator()
    running = on_yarn.start(operator, ship(backlog))
    running.container(master=False)
    operator.on_kill()
    with pytest.raises(AirflowException, match="the task was killed"):
        running.finish()
    on_yarn.run(ship(backlog))
    backlog.check_shipped()
    await_that(lambda: running.state["state"] in ("FINISHED", "FAILED", "KILLED"), on_yarn.told)
    await_that(lambda: not on_yarn.yarn.containers(running.application), on_yarn.told)
    logs = "\n".join(on_yarn.yarn.container_logs(running.application).values())
    assert ("the task that waited for this job is gone" in logs) == (mode == "cluster"), logs
