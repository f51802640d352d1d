"""From Airflow's login through the replication page to finished runs, in a browser, on real clusters."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Frame, Page, expect

from demo.airflow_standalone import Airflow
from embedded.client import GLOBAL, JavaClient
from tests.airflow_standalone import running
from tests.cluster.dead_queues import DeadQueue, record
from tests.cluster.walferry_runs import source_of
from tests.conftest import StandalonePair
from tests.ui.airflow_ui import FRAME, backfill, follow_form, log_in, open_replication, trigger_with_copied
from tests.ui.conftest import OpenTab, ground

DRAIN, BACKFILL = "drain_recovered_queue", "replay_interval"
OPERATOR, VIEWER = "ola", "vera"
ROWS = 50
NOTHING = "no page: refusals are errors"
SECONDS = 30  # of an interval of a backfill; Airflow's form takes whole minutes
RUN_MS = 120_000  # until a run's changes are shown

pytestmark = pytest.mark.timeout(900)

LogIn = Callable[[str], Page]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tmp_path_factory.mktemp("airflow"))


@pytest.fixture(scope="module")
def airflow(standalone_pair: StandalonePair, home: Path) -> Iterator[Airflow]:
    """One Airflow for all tests, with an operator and a viewer."""
    at = standalone_pair.source.address
    source = {"conn_type": "generic", "host": at.quorum, "extra": {"znode_parent": at.znode_parent, "wal_root": at.wal_root}}
    environment = {
        "AIRFLOW_CONN_HBASE_SOURCE": json.dumps(source),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"admin:admin,{OPERATOR}:op,{VIEWER}:viewer",
        "AIRFLOW__WALFERRY__REPLAY_INTERVALS": f"* * * * * */{SECONDS}",  # the last field is seconds
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
    }
    with running(Airflow(home, environment), DRAIN, BACKFILL) as airflow:
        yield airflow


@pytest.fixture
def password_of(airflow: Airflow, home: Path) -> Callable[[str], str]:
    """The passwords that Airflow has made at its start."""
    return lambda user: str(json.loads((home / "passwords.json").read_text())[user])


@pytest.fixture
def logged_in(airflow: Airflow, password_of: Callable[[str], str], open_tab: OpenTab) -> LogIn:
    """`logged_in(VIEWER)`: a tab in which this user has logged in, on Airflow's first page."""

    def enter(user: str) -> Page:
        page = open_tab(airflow.url, watched=f"{airflow.url}/walferry/", permissions=["clipboard-read", "clipboard-write"])
        log_in(page, user, password_of(user))
        return page

    return enter


@pytest.fixture
def source(standalone_pair: StandalonePair, java_client: Callable[..., JavaClient]) -> JavaClient:
    return java_client(standalone_pair.source.address)


@pytest.fixture
def peer_cluster(standalone_pair: StandalonePair, java_client: Callable[..., JavaClient]) -> JavaClient:
    return java_client(standalone_pair.peer_cluster.address)


@pytest.fixture
def peer(standalone_pair: StandalonePair, managed_peer: Callable[..., str]) -> str:
    return managed_peer(standalone_pair.source.address, standalone_pair.peer_cluster.address)


@pytest.fixture
def table(source: JavaClient, peer_cluster: JavaClient, unique: Callable[[str], str]) -> Iterator[str]:
    name = unique("t")
    for client in (source, peer_cluster):
        client.create_table(name, {"f": GLOBAL})
    yield name
    for client in (source, peer_cluster):
        client.drop_table(name)


def sleep_until(date: datetime, seconds: int) -> None:
    time.sleep(max(0.0, date.timestamp() + seconds - time.time()))


def rows_of(client: JavaClient, table: str) -> int:
    return len({cell.row for cell in client.scan_all(table)})


@pytest.mark.capability("the page")
def test_an_operator_drains_a_dead_server_s_queue(
    logged_in: LogIn, airflow: Airflow, standalone_pair: StandalonePair, source: JavaClient, peer_cluster: JavaClient, peer: str,
    table: str,
) -> None:  # fmt: skip
    dead = DeadQueue(source_of(standalone_pair.source.address), source, peer)
    recording = record(source, table, ROWS)
    dead.add(recording.content)
    page = logged_in(OPERATOR)
    frame = open_replication(page)
    frame.get_by_label("Name contains").fill(dead.server)
    frame.get_by_label("Name contains").press("Enter")
    row = frame.locator("table.queues tbody tr")
    expect(row).to_have_count(1, timeout=RUN_MS)
    expect(row).to_contain_text(f"Recovered of peer {peer}")
    follow_form(page, frame, "Drain this queue")
    assert page.url.endswith(f"/dags/{DRAIN}")
    trigger_with_copied(page)
    (run,) = airflow.await_runs(DRAIN)
    assert (run["state"], run["triggering_user_name"]) == ("success", OPERATOR)
    assert dead.positions() == {}
    assert rows_of(peer_cluster, table) == ROWS
    frame = open_replication(page)
    frame.get_by_label("Name contains").fill(dead.server)
    frame.get_by_label("Name contains").press("Enter")
    expect(frame.get_by_text("No queue fits the filter.")).to_be_visible(timeout=RUN_MS)


def test_an_operator_ships_an_interval_again(
    logged_in: LogIn, airflow: Airflow, source: JavaClient, peer_cluster: JavaClient, peer: str, table: str
) -> None:
    source.put_many(table, ROWS, ["f:q"])
    page = logged_in(OPERATOR)
    frame = open_replication(page)
    frame.locator("#filter-peer").select_option(peer)
    frame.get_by_role("button", name="Filter").click()
    in_frame(page).wait_for_url(lambda address: f"peer={peer}" in address)  # the page before it has the peer's heading, too
    expect(frame.get_by_role("heading", name=f"Peer {peer}")).to_be_visible(timeout=RUN_MS)
    follow_form(page, frame, "Ship an interval again")
    assert page.url.endswith(f"/dags/{BACKFILL}")
    before = {run["dag_run_id"] for run in airflow.runs(BACKFILL)}
    trigger_with_copied(page, dry_run=False)
    (run,) = [run for run in airflow.await_runs(BACKFILL) if run["dag_run_id"] not in before]
    assert (run["state"], run["triggering_user_name"]) == ("success", OPERATOR)
    assert airflow.returned(BACKFILL, run["dag_run_id"], "report")["totals"]["shippedOps"] == ROWS
    assert rows_of(peer_cluster, table) == ROWS


def test_an_operator_backfills_three_intervals(
    logged_in: LogIn, airflow: Airflow, source: JavaClient, peer_cluster: JavaClient, peer: str, table: str
) -> None:
    now = time.time() + 15
    first = datetime.fromtimestamp(now - now % 60 + 60, UTC)
    for number, second in enumerate((-12, SECONDS - 12, SECONDS + 1, 2 * SECONDS + 1)):  # the first one is not asked for
        sleep_until(first, second)
        source.put_many(table, ROWS + number, ["f:q"], first=100 * number)
    page = logged_in(OPERATOR)
    sleep_until(first, 3 * SECONDS)  # Airflow backfills only intervals that have ended
    page.goto(f"{airflow.url}/dags/{BACKFILL}")
    before = {run["dag_run_id"] for run in airflow.runs(BACKFILL)}  # of an earlier try, too
    backfill(page, [first, first + timedelta(minutes=1)], peer)
    runs = [run for run in airflow.await_runs(BACKFILL) if run["dag_run_id"] not in before]
    assert {run["run_type"] for run in runs} == {"backfill"}
    assert [(run["state"], run["triggering_user_name"]) for run in runs] == [("success", OPERATOR)] * 3
    shipped = [airflow.returned(BACKFILL, run["dag_run_id"], "report")["totals"]["shippedOps"] for run in runs]
    assert sorted(shipped) == [ROWS + 1, ROWS + 2, ROWS + 3]
    assert rows_of(peer_cluster, table) == sum(shipped)


def test_a_viewer_sees_the_page_and_no_action(logged_in: LogIn, peer: str) -> None:
    page = logged_in(VIEWER)
    frame = open_replication(page)
    expect(frame.get_by_role("heading", name=f"Peer {peer}")).to_be_visible(timeout=RUN_MS)
    assert frame.locator("details.form, form[method=post]").count() == 0


@pytest.mark.parametrize("path", ["plugin/walferry", "plugin/walferry/walferry/replication", "walferry/replication"])
def test_a_stranger_is_sent_to_the_login_and_from_there_to_the_page(
    airflow: Airflow, password_of: Callable[[str], str], open_tab: OpenTab, path: str
) -> None:
    page = open_tab(f"{airflow.url}/{path}", watched=NOTHING)
    if not path.startswith("plugin"):
        expect(page.get_by_text("You are not logged in")).to_be_visible()
        page.get_by_role("link", name="Log in").click()
    log_in(page, VIEWER, password_of(VIEWER))
    expect(page.frame_locator(FRAME).get_by_role("heading", name="Replication", exact=True)).to_be_visible()


def test_a_login_that_expires_is_renewed_in_the_frame(
    airflow: Airflow, password_of: Callable[[str], str], open_tab: OpenTab
) -> None:
    page = open_tab(airflow.url, watched=NOTHING)
    log_in(page, VIEWER, password_of(VIEWER))
    open_replication(page)
    frame = in_frame(page)
    page.context.clear_cookies()
    frame.get_by_role("link", name="Reload").click()
    frame.get_by_role("link", name="Log in").click()
    log_in(frame, VIEWER, password_of(VIEWER))
    expect(frame.get_by_role("heading", name="Replication", exact=True)).to_be_visible()


def test_the_page_follows_airflow_s_theme(logged_in: LogIn) -> None:
    page = logged_in(VIEWER)
    frame = open_replication(page)
    for theme in ("dark", "light"):
        page.evaluate("theme => localStorage.setItem('theme', theme)", theme)
        expect(frame.locator(f"html[data-theme={theme}]")).to_be_attached()
        page.reload()  # then Airflow's own part follows, too
        expect(page.locator(f"html.{theme}")).to_be_attached()
        expect(frame.locator(f"html[data-theme={theme}]")).to_be_attached()
        assert ground(in_frame(page).locator("body")) == pytest.approx(ground(page.locator(FRAME)), abs=2)


def in_frame(page: Page) -> Frame:
    (found,) = page.main_frame.child_frames
    found.wait_for_load_state()
    return found
