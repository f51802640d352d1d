"""Airflow's own UI as a user clicks through it: the login, the navigation, the form of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from playwright.sync_api import Frame, FrameLocator, Locator, Page, expect

FRAME = "iframe[title=Replication]"
CLICKS, CLICK_MS = 3, 10_000
EDITOR = ".monaco-editor .native-edit-context, .monaco-editor textarea"


def log_in(page: Page | Frame, user: str, password: str) -> None:
    """Fill in the login form, which the page shows now."""
    page.locator("input[name=username]").fill(user)
    page.locator("input[name=password]").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/auth/login" not in url)


def open_replication(page: Page) -> FrameLocator:
    """Click on the entry in the navigation; the replication page in its frame."""
    page.get_by_role("link", name="Replication", exact=True).click()
    frame = page.frame_locator(FRAME)
    expect(frame.get_by_role("heading", name="Replication", exact=True)).to_be_visible()
    return frame


def follow_form(page: Page, frame: FrameLocator, summary: str) -> None:
    """Unfold a form of the replication page, copy its parameters, and follow its link to the DAG."""
    form = frame.locator("details.form", has_text=summary).first
    form.locator("summary").click()
    form.get_by_role("button", name="Copy").click()
    expect(form.get_by_role("button", name="Copied")).to_be_visible()
    form.get_by_role("link").click()
    page.wait_for_url("**/dags/*")


def press_trigger(page: Page) -> Locator:
    """Press Trigger on a DAG's page. Returns the form."""
    page.get_by_test_id("trigger-dag-button").first.click()
    return page.get_by_role("dialog").first


def open_trigger_form(page: Page, conf: Mapping[str, Any]) -> Locator:
    """Press Trigger on a DAG's page, and paste this into the form. Returns the form."""
    form = press_trigger(page)
    form.get_by_role("button", name="Advanced Options").click()
    form.locator(EDITOR).first.focus()
    page.keyboard.press("ControlOrMeta+A")
    page.evaluate("text => navigator.clipboard.writeText(text)", json.dumps(conf))
    page.keyboard.press("ControlOrMeta+V")
    form.get_by_text("Configuration JSON").click()  # the form takes over what is in the editor when one leaves it
    return form


def trigger_with_copied(page: Page, **changes: Any) -> None:
    """Have a run begin with what was copied, and with these changes."""
    form = open_trigger_form(page, {**json.loads(page.evaluate("navigator.clipboard.readText()")), **changes})
    sent: list[str] = []
    page.on(
        "request", lambda request: sent.append(request.url) if request.method == "POST" and "/dagRuns" in request.url else None
    )
    for _ in range(CLICKS):  # the form grows as it takes over what was pasted, and the button may move away under a click
        form.get_by_test_id("trigger-dag-submit").click()
        try:
            expect(form).to_be_hidden(timeout=CLICK_MS)
        except AssertionError:
            if sent:
                break
        else:
            return
    expect(form, f"requests for a run: {sent}").to_be_hidden()


def backfill(page: Page, dates: Sequence[datetime], peer: str) -> None:
    """Press Trigger on a DAG's page, and have it backfill the intervals that start from one date to the other, for this peer."""
    form = press_trigger(page)
    form.get_by_text("Backfill", exact=True).click()
    for field, date in enumerate(dates):
        form.get_by_test_id("datetime-input").nth(field).click()
        picker = page.locator("[data-scope=popover][data-part=content][data-state=open]")
        picker.get_by_placeholder("YYYY/MM/DD").fill(date.strftime("%Y/%m/%d"))
        picker.get_by_placeholder("HH:mm").fill(date.strftime("%H:%M"))
        page.keyboard.press("Escape")
        expect(picker).to_be_hidden()
    form.locator("input[name=max_active_runs]").fill("3")
    form.get_by_text("Override parameters on existing runs").click()  # without it, Airflow leaves the parameters out
    form.locator("#element_peer").fill(peer)
    form.locator("#element_peer").blur()
    expect(form.get_by_text("3 runs will be triggered.")).to_be_visible()
    form.get_by_role("button", name="Run Backfill").click()
    expect(form).to_be_hidden()
