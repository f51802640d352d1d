"""The documentation covers all of Airflow's configuration that Walferry reads."""

from __future__ import annotations

import re
from pathlib import Path

REPO = Path(__file__).resolve().parents[3]


def test_the_documentation_has_each_setting_of_our_section() -> None:
    files = [*(REPO / "dags").glob("*.py"), *(REPO / "plugins/walferry/airflow").rglob("*.py")]
    read = {name for path in files for name in re.findall(r'"walferry", "(\w+)"', path.read_text())}
    _, _, reported = (REPO / "docs/params.md").read_text().partition("## Settings in Airflow's configuration")
    assert len(read) > 3
    assert set(re.findall(r"(?m)^\| `(\w+)` \|", reported)) == read
