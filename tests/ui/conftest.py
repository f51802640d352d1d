"""The system's Chromium, without a window. An error in a tab fails the test that opened the tab."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Locator, Page, Request, expect, sync_playwright

from embedded.browser import find_browser, options

WIDTH, HEIGHT = 1280, 900
NARROW = 400
WAIT_MS = 30_000  # for things that should come at once, on a machine that may pause

expect.set_options(timeout=WAIT_MS)

OpenTab = Callable[..., Page]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser. Its scope is not the whole session: while it lives, no other test in this thread could run an event loop."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=options())
        yield browser
        browser.close()


@pytest.fixture
def open_tab(chromium: Browser) -> Iterator[OpenTab]:
    """`open_tab(address, theme="dark", width=400)`: a tab of a new user, with this page.

    The test fails at its end if a page whose address begins with `watched`, by default any, has opened a dialog, written an error
    to the console, which violations of its policy are too, or asked another host for anything.
    """
    wrong: list[str] = []
    contexts = []

    def open_one(address: str, *, theme: str = "light", width: int = WIDTH, watched: str | None = None, **more: Any) -> Page:
        context = chromium.new_context(color_scheme=theme, viewport={"width": width, "height": HEIGHT}, **more)
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        watch(page, address, watched, wrong)
        page.goto(address)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert not wrong


GROUND = """(at) => {
    while (getComputedStyle(at).backgroundColor === "rgba(0, 0, 0, 0)") {
        at = at.parentElement;
    }
    const context = new OffscreenCanvas(1, 1).getContext("2d");
    context.fillStyle = getComputedStyle(at).backgroundColor;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
}"""


def ground(element: Locator) -> list[int]:
    """Return the colour behind an element: red, green and blue."""
    colour: list[int] = element.evaluate(GROUND)
    return colour


def watch(page: Page, address: str, watched: str | None, wrong: list[str]) -> None:
    """Record forbidden actions of a page."""
    origin = "/".join(address.split("/")[:3]) + "/"
    own = origin if watched is None else watched  # the beginning of the addresses of watched pages

    def dialog(opened: Dialog) -> None:
        wrong.append(f"a dialog: {opened.message}")
        opened.dismiss()

    def console(reported: ConsoleMessage) -> None:
        if reported.type == "error" and reported.location["url"].startswith(own):
            wrong.append(f"an error of {reported.location['url']}: {reported.text}")

    def request(asked: Request) -> None:
        if asked.frame.url.startswith(own) and not asked.url.startswith((origin, "data:")):
            wrong.append(f"{asked.frame.url} asked {asked.url}")

    page.on("dialog", dialog)
    page.on("console", console)
    page.on("request", request)
    if watched is None:  # an error does not name its document
        page.on("pageerror", lambda error: wrong.append(f"an error: {error}"))
