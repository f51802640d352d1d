"""The options of Airflow's configuration: each is read, has a default, and is in the documentation."""

from __future__ import annotations

import re

import pytest

from tests.doc_tables import LIBRARY, ROOT, page, rows
from walferry.airflow.options import OPTIONS, descriptions, option

FILES = [*(ROOT / "dags").glob("*.py"), *(LIBRARY / "airflow").rglob("*.py")]
WRITTEN = {name.strip("`"): default for name, default, _ in rows(page("params.md").partition("## Settings in Airflow's conf")[2])}


def test_each_option_is_read_and_no_other_setting_of_the_section() -> None:
    texts = [path.read_text() for path in FILES]
    read = {name for text in texts for name in re.findall(r'\b(?:option\(|OPTION = )"(\w+)"', text)}
    assert read == OPTIONS.keys()
    assert not [text for text in texts if re.search(r'"walferry", "\w+"', text)]


def test_the_documentation_has_each_option_with_its_default() -> None:
    assert WRITTEN.keys() == OPTIONS.keys()
    defaults = {name: f"`{each.default}`" for name, each in OPTIONS.items() if each.default}
    assert len(defaults) > 2
    assert {name: WRITTEN[name] for name in defaults} == defaults


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_what_the_environment_says_or_else_its_default(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(f"AIRFLOW__WALFERRY__{name.upper()}", raising=False)
    assert option(name) == (OPTIONS[name].default or "")
    monkeypatch.setenv(f"AIRFLOW__WALFERRY__{name.upper()}", "set")
    assert option(name) == "set"


def test_airflow_s_description_of_an_option_has_its_default_and_an_example_where_there_is_none() -> None:
    for name, described in descriptions().items():
        assert described["default"] == OPTIONS[name].default
        assert described["example"] or described["default"]
