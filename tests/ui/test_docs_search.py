"""The search of the docs' site finds the right page first, for what people see and type."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi.staticfiles import StaticFiles
from playwright.sync_api import Page, expect

from embedded.served import served

from .conftest import OpenTab

REPO = Path(__file__).resolve().parents[2]
INPUT, HITS = "input.md-search__input", ".md-search-result__item > a"
QUESTIONS = {
    "dead server queue": "runbooks/recovered-queue",
    "recovered queue slow": "runbooks/recovered-queue",
    "oldWALs growing": "runbooks/oldwals-growing",
    "oldWALs disk full": "runbooks/oldwals-growing",
    "stuck on empty WAL": "runbooks/corrupt-wal",
    "replication.source.eof.autorecovery": "runbooks/corrupt-wal",
    "EOFException reading WAL": "runbooks/corrupt-wal",
    "replication lag": "runbooks/stuck-peer",
    "TableNotFoundException": "runbooks/stuck-peer",
    "peer cluster down": "runbooks/peer-cluster-down",
    "region in transition stuck": "runbooks/regions-stuck",
    "position beyond end of WAL": "runbooks/stale-position",
    "go back to HBase replication": "runbooks/hand-a-peer-back",
    "ageOfLastShippedOp": "monitoring",
    "alert prometheus": "monitoring",
    "create a peer": "peers",
    "throttle bandwidth": "settings",
    "kerberos keytab": "secured-clusters",
    "Spark on YARN": "spark",
    "compare tables verifyrep": "verification",
    "existing rows snapshot": "initial-snapshot",
    "replay last week": "backfill",
    "HBase 1.4 support": "limits",
    "bulk load hfiles": "bulk-loads",
    "serial replication": "serial-peers",
    "cores per GB": "figures",
    # Errors, as they are printed
    "the token would travel to spark1:15002 unencrypted": "errors/spark",
    "the ticket of walferry@EAST has expired": "errors/logins",
    "BatchFailed": "errors/batches",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the built site."""
    folder = tmp_path_factory.mktemp("site")
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(folder)], cwd=REPO, env=environ, check=True)
    with served(StaticFiles(directory=folder)) as address:
        yield f"{address}/"


def first_hit(page: Page, question: str) -> str:
    """Ask a question, and return the path of the first page that the search shows."""
    for text in ("", question):
        page.fill(INPUT, text)
        page.press(INPUT, "End")  # the page asks once a key is let go
        if not text:
            expect(page.locator(HITS)).to_have_count(0)
    expect(page.locator(HITS).first).to_be_attached()
    found = page.locator(HITS).first.get_attribute("href")
    return urlsplit(found or "").path.strip("/").removesuffix(".html")


def test_each_question_finds_the_right_page_first(site: str, open_tab: OpenTab) -> None:
    page = open_tab(f"{site}index.html")
    found = {question: first_hit(page, question) for question in QUESTIONS}
    assert found == QUESTIONS
