"""Takes pictures of the replication page in Airflow, in each state that tests show it in, to be looked at by people.

    PYTHONPATH=plugins python -m tests.ui.screenshots FOLDER [state …]

A real ZooKeeper has the znodes of the clusters (worlds.py), and a real Airflow shows them, some dark or narrow too, then the form
of a run that the page has parameters for, and a run that failed. It takes some minutes, since Airflow's connection leads to one
cluster after the other, and the page keeps what it has read of a connection for a while.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from demo.airflow_standalone import Airflow
from embedded.browser import find_browser, options
from embedded.zookeeper import ZooKeeperServer
from tests.airflow_standalone import running
from tests.ui.airflow_ui import FRAME, follow_form, log_in, open_replication, open_trigger_form
from tests.ui.conftest import NARROW, WIDTH
from tests.ui.worlds import STATES, World
from walferry.airflow.page.sources import CONNECTION_SECONDS
from walferry.base.zk.client import connected

CONN_ID = "hbase_source"
LIGHT, DARK = "light", "dark"
MORE = {"behind": ((DARK, WIDTH), (LIGHT, NARROW)), "orphaned": ((DARK, WIDTH), (DARK, NARROW)), "healthy": ((DARK, WIDTH),)}
HEIGHT, NARROW_HEIGHT = 1000, 2200
SETTLE_SECONDS = 8.0  # the page learns some facts only a while after it was asked


def main(arguments: Sequence[str]) -> None:
    """Take all pictures, or those of some states."""
    folder, states = Path(arguments[0]), arguments[1:] or list(STATES)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="walferry-pictures-") as work, ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeperServer(Path(work) / "zookeeper"))
        zk = stack.enter_context(connected(zookeeper.quorum))
        airflow = stack.enter_context(started(Path(work) / "airflow"))
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=find_browser(), args=options())
        for name in states:
            world = World(zk, zookeeper.quorum, f"/{name}", Path(work) / name)
            stack.callback(world.close)
            STATES[name](world)
            lead_to(airflow, world)
            for theme, width in ((LIGHT, WIDTH), *MORE.get(name, ())):
                page = logged_in(browser, airflow, theme, width)
                open_replication(page)
                time.sleep(SETTLE_SECONDS)
                take(page, folder / f"{name}-{theme}-{width}.png")
                page.context.close()
        if "orphaned" in states:
            form_and_failed_run(browser, airflow, folder)
        browser.close()


@contextmanager
def started(home: Path) -> Iterator[Airflow]:
    environment = {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"})}
    with running(Airflow(home, environment), "drain_recovered_queue") as airflow:
        airflow.command("connections", "add", CONN_ID, "--conn-type", "generic", "--conn-host", "nowhere")
        yield airflow


def lead_to(airflow: Airflow, world: World) -> None:
    """Have the connection lead to this cluster, and wait until the page has forgotten the cluster before."""
    host, port = world.quorum.split(":")
    extra = {"znode_parent": world.parent, "wal_root": world.source.wal_root, "walferry_root": world.source.root}
    airflow.command("connections", "delete", CONN_ID)
    airflow.command(
        "connections", "add", CONN_ID, "--conn-type", "generic", "--conn-host", host, "--conn-port", port, "--conn-extra",
        json.dumps(extra),
    )  # fmt: skip
    time.sleep(CONNECTION_SECONDS)


def logged_in(browser: Browser, airflow: Airflow, theme: str, width: int) -> Page:
    size = {"width": width, "height": HEIGHT if width == WIDTH else NARROW_HEIGHT}
    context = browser.new_context(color_scheme=theme, viewport=size, permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(airflow.url)
    log_in(page, "admin", airflow.password)
    return page


def take(page: Page, path: Path) -> None:
    page.screenshot(path=path)
    print(path)


def form_and_failed_run(browser: Browser, airflow: Airflow, folder: Path) -> None:
    """Show the form of a drain, on the page and in Airflow, and a run of a peer that does not exist."""
    page = logged_in(browser, airflow, LIGHT, WIDTH)
    frame = open_replication(page)
    frame.locator("table.queues details.form summary").first.click()
    frame.locator("table.queues").scroll_into_view_if_needed()
    take(page, folder / "form-on-the-page.png")
    page.reload()
    follow_form(page, page.frame_locator(FRAME), "Drain this queue")
    open_trigger_form(page, json.loads(page.evaluate("navigator.clipboard.readText()")))
    take(page, folder / "form-in-airflow.png")
    airflow.unpause("replicate_peer")
    run_id = airflow.trigger("replicate_peer", {"peer": "nobody"})
    airflow.await_run("replicate_peer", run_id)
    page.goto(f"{airflow.url}/dags/replicate_peer/runs/{run_id}")
    expect(page.get_by_text("failed", exact=False).first).to_be_visible()
    time.sleep(SETTLE_SECONDS)
    take(page, folder / "failed-run.png")
    failed = next(task for task in airflow.tasks("replicate_peer", run_id) if task["state"] == "failed")
    page.goto(f"{airflow.url}/dags/replicate_peer/runs/{run_id}/tasks/{failed['task_id']}")
    time.sleep(SETTLE_SECONDS)
    take(page, folder / "failed-task-log.png")


if __name__ == "__main__":
    main(sys.argv[1:])
