"""The replication page in a browser, in each state that it has to show: readable by all, usable by keyboard, harmless."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from fastapi import FastAPI
from playwright.sync_api import Page, expect

from embedded.served import served
from embedded.zookeeper import ZooKeeperServer
from tests.ui.conftest import NARROW, WIDTH, OpenTab, ground
from tests.ui.pages import page_of
from tests.ui.worlds import MANY_QUEUES, STATES, World, server
from walferry.base.zk.client import connected
from walferry.observe.status.statuses import STATUS_SECONDS
from walferry.replication.source.cluster import SourceCluster

VIEWER, UNREACHABLE = "viewer", "unreachable"
EVERY = [*STATES, UNREACHABLE]
CONTROLS = "a[href], button, select, input:not([type=hidden]), summary, [tabindex='0']"
VISIBLE = f"[...document.querySelectorAll(`{CONTROLS}`)].filter((each) => each.checkVisibility())"
DARK, LIGHT = "dark", "light"
NAVIGATION = 70  # the width of Airflow's navigation next to the page

ShowState = Callable[..., Page]


@pytest.fixture(scope="module")
def site(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address below which each state has a page, with its name."""
    folder = Path(tmp_path_factory.mktemp("worlds"))
    with connected(zookeeper.quorum) as zk, ExitStack() as stack:
        app = FastAPI()
        app.mount(f"/{UNREACHABLE}", page_of(SourceCluster(quorum="127.0.0.1:1", wal_root="file:///none")))
        for name, make in STATES.items():
            world = World(zk, zookeeper.quorum, f"/{name}", folder / name)
            stack.callback(world.close)
            make(world)
            app.mount(f"/{name}", page_of(world.source))
            if name == "orphaned":
                app.mount(f"/{VIEWER}", page_of(world.source, operator=False))
        address = stack.enter_context(served(app))
        for _ in range(2):  # the first look does not wait for files and peer clusters
            for name in EVERY:
                httpx.get(f"{address}/{name}/replication", timeout=60).raise_for_status()
            time.sleep(STATUS_SECONDS + 1)
        yield address


@pytest.fixture
def show(site: str, open_tab: OpenTab) -> ShowState:
    """`show("behind", theme=DARK)`: the page in this state, which is not refreshed any more."""

    def show(state: str, query: str = "", **tab: object) -> Page:
        page = open_tab(f"{site}/{state}/replication{query}", **tab)
        page.get_by_role("button", name="Pause refreshing").click()
        return page

    return show


def open_all(page: Page) -> None:
    """Unfold everything that can be unfolded."""
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")


@pytest.mark.parametrize("theme", [LIGHT, DARK])
@pytest.mark.parametrize("state", EVERY)
def test_nobody_is_kept_from_reading_any_state(show: ShowState, state: str, theme: str) -> None:
    page = show(state, theme=theme)
    open_all(page)
    found = Axe().run(page, options={"resultTypes": ["violations"]})
    assert not found.response["violations"], found.generate_report()


@pytest.mark.parametrize("width", [NARROW, WIDTH])
@pytest.mark.parametrize("state", EVERY)
def test_no_state_is_wider_than_the_window(show: ShowState, state: str, width: int) -> None:
    page = show(state, width=width)
    open_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        """() => [...document.querySelectorAll("main *")]
            .filter((each) => !each.closest("svg, .wide") && each.checkVisibility())
            .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
            .map((each) => each.outerHTML.slice(0, 200))"""
    )
    assert not outside


@pytest.mark.parametrize("width", [NARROW, WIDTH])
def test_each_peer_has_a_row_that_leads_to_all_about_it_and_needs_no_scrolling_sideways(show: ShowState, width: int) -> None:
    page = show("behind", width=width)
    rows = page.get_by_role("region", name="Peers of source")
    assert rows.evaluate("(each) => each.scrollWidth - each.clientWidth") == 0
    assert rows.locator("caption").evaluate("(each) => each.clientHeight") < 40  # one line
    expect(rows.get_by_text("Shipping").first).to_be_in_viewport()
    link = rows.get_by_role("link").first
    name = link.inner_text()
    link.press("Enter")
    expect(page.get_by_role("heading", name=f"Peer {name} ")).to_be_in_viewport()


def test_an_unfolded_form_of_a_queue_is_seen_whole(show: ShowState) -> None:
    page = show("orphaned", width=WIDTH - NAVIGATION)
    table = page.get_by_role("region", name="Queues")
    table.locator("summary").first.click()
    expect(table.get_by_role("button", name="Copy").first).to_be_visible()
    assert table.evaluate("(each) => each.scrollWidth - each.clientWidth") == 0


@pytest.mark.parametrize("state", ["behind", "orphaned"])
def test_the_tab_key_reaches_each_control_in_order_and_shows_where_it_is(show: ShowState, state: str) -> None:
    page = show(state)
    open_all(page)
    wanted = page.evaluate(f"{VISIBLE}.length")
    assert wanted > 15
    reached: list[int] = []
    for _ in range(wanted + 3):  # it goes on at the top, perhaps by way of the window itself
        page.keyboard.press("Tab")
        at, shows, reported = page.evaluate(
            f"""() => {{
                const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
                const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
                const inside = box.width > 0 && box.left >= 0 && box.top < innerHeight && box.bottom > 0;
                return [{VISIBLE}.indexOf(at), outlined && inside, at.outerHTML.slice(0, 300)];
            }}"""
        )
        if at >= 0:
            assert shows, reported
            reached.append(at)
    assert set(reached) == set(range(wanted))
    assert all(after in (before + 1, 0) for before, after in pairwise(reached))


def test_the_filter_is_used_by_keyboard(show: ShowState) -> None:
    page = show("many")
    page.get_by_label("Name contains").focus()
    page.keyboard.type("host-0042")
    page.keyboard.press("Enter")
    page.wait_for_url("**text=host-0042*")
    expect(page.locator("table.queues tbody tr")).to_have_count(1)
    expect(page.locator("table.queues caption")).to_have_text(f"WAL groups 1 to 1 of 1, filtered from {MANY_QUEUES:,}")
    page.get_by_role("link", name="Clear").press("Enter")
    expect(page.locator("table.queues caption")).to_have_text(f"WAL groups 1 to 50 of {MANY_QUEUES:,}")


def test_the_first_key_skips_to_the_queues(show: ShowState) -> None:
    page = show("behind")
    page.reload()
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the queues")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    skip.press("Enter")
    expect(page.get_by_role("heading", name="Queues")).to_be_focused()


def test_one_pages_and_sorts_through_a_thousand_queues(show: ShowState) -> None:
    page = show("many")
    first = page.locator("table.queues tbody th").first
    expect(page.get_by_text(f"Page 1 of {MANY_QUEUES // 50}")).to_be_visible()
    page.get_by_role("link", name="Next").click()
    page.wait_for_url("**page=2*")
    page.get_by_role("link", name="Under server").click()
    page.wait_for_url("**order=server*")
    expect(page.get_by_text(f"Page 1 of {MANY_QUEUES // 50}")).to_be_visible()
    expect(first).to_contain_text("host-0000.example.org")
    expect(page.get_by_role("columnheader", name="Under server")).to_have_attribute("aria-sort", "ascending")
    page.get_by_label("Rows").select_option("200")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("table.queues tbody tr")).to_have_count(200)


def test_a_refresh_leaves_focus_and_what_is_unfolded_where_they_were(site: str, open_tab: OpenTab) -> None:
    page = open_tab(f"{site}/orphaned/replication")
    form = page.locator("table.queues details.form").first
    form.locator("summary").press("Enter")
    page.evaluate("document.querySelector('#content').dataset.old = 'yes'")
    page.wait_for_selector("#content:not([data-old])")
    expect(form).to_have_attribute("open", "")
    expect(form.locator("summary")).to_be_focused()


def test_a_refused_clipboard_holds_up_refreshing_for_a_while_only(site: str, open_tab: OpenTab) -> None:
    page = open_tab(f"{site}/orphaned/replication")
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('refused')); }")
    form = page.locator("table.queues details.form").first
    form.locator("summary").click()
    form.get_by_role("button", name="Copy").click()
    expect(form.get_by_role("button", name="Selected: press Ctrl+C")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("Not refreshed while text is selected")
    page.evaluate("document.querySelector('#content').dataset.old = 'yes'; selected.until = 0")
    page.wait_for_selector("#content:not([data-old])")


def test_no_refresh_takes_a_filter_out_of_the_hands_of_who_types(site: str, open_tab: OpenTab) -> None:
    page = open_tab(f"{site}/many/replication")
    page.get_by_label("Name contains").press_sequentially("host-00")
    expect(page.get_by_role("status")).to_have_text("Not refreshed while you fill in the filter")
    expect(page.get_by_label("Name contains")).to_have_value("host-00")


def lightness(page: Page) -> int:
    """Return the lightness of the ground, from 0 to 255."""
    return sum(ground(page.locator("body"))) // 3


def test_it_follows_the_theme_of_airflow_at_once_and_else_that_of_the_system(show: ShowState) -> None:
    page = show("healthy", theme=DARK)
    assert lightness(page) < 40
    airflow = page.context.new_page()  # this document hears what another document of Airflow's writes
    airflow.goto(page.url)
    airflow.evaluate("localStorage.setItem('theme', 'light')")
    page.wait_for_selector("html[data-theme=light]")
    assert lightness(page) > 240
    airflow.evaluate("localStorage.setItem('theme', 'system')")
    page.wait_for_selector("html:not([data-theme])")
    assert lightness(page) < 40
    page.emulate_media(color_scheme="light")
    assert lightness(page) > 240


def test_names_that_somebody_has_chosen_stand_there_as_text_and_run_nothing(show: ShowState) -> None:
    page = show("hostile")
    open_all(page)
    page.wait_for_timeout(200)  # time for scripts that a missing image would run
    assert page.locator("main script, main img").count() == 0
    expect(page.get_by_role("heading", name=re.compile("Peer <script>alert"))).to_be_visible()
    text = page.locator("body").inner_text()
    assert r"\u202e\u200b" in text
    assert "{{7*191}}${7*191}" in text
    assert not set("\u202e\u200b\x1b") & set(text)
    assert page.locator("[onerror]").count() == 0


def test_a_viewer_reads_all_and_is_offered_nothing_to_trigger(show: ShowState) -> None:
    page = show(VIEWER)
    expect(page.locator("table.queues")).to_contain_text(server(5))
    assert page.locator("details.form, main form[method=post]").count() == 0
    assert page.get_by_text("Trigger").count() == 0
    assert "Actions" not in page.locator("th").all_inner_texts()


def test_a_form_s_parameters_are_copied(show: ShowState) -> None:
    page = show("orphaned", permissions=["clipboard-read", "clipboard-write"])
    row = page.locator("table.queues tbody tr", has_text=f"dr_site-{server(5)}").or_(
        page.locator("table.queues tbody tr", has_text=f"from {server(5)}")
    )
    row.get_by_text("Drain this queue").click()
    row.get_by_role("button", name="Copy").click()
    expect(row.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == f'{{"source_conn_id": "hbase_source", "queue": "{server(2)}/dr_site-{server(5)}"}}'
