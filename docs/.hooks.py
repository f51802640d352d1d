"""Says which pages of the site its search puts first: runbooks, then what users read; last what every word is on."""

from __future__ import annotations

from typing import Any

BOOSTS = {
    "runbooks/index.md": 1.0,
    "runbooks/": 1.6,
    "demo.md": 0.4,
    "comparison.md": 0.3,
    "errors/": 0.5,
    "mistakes.md": 0.2,
    "provider.md": 0.3,
    "params.md": 0.4,
    "layout.md": 0.1,
    "wal-format.md": 0.1,
    "hfiles.md": 0.1,
    "region-transitions.md": 0.1,
    "hbase-test-cases.md": 0.05,
    "hbase-docs.md": 0.05,
}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> None:
    """Give a page the boost of the first name in BOOSTS that its path begins with."""
    path = page.file.src_uri
    boost = next((boost for name, boost in BOOSTS.items() if path.startswith(name)), 1.0)
    page.meta.setdefault("search", {})["boost"] = boost
