"""A job on a command line: Spark's application master is started by a shell, which YARN hands the line to."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.base.jobs import plain

VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(), st.text("{}\"'\\`$!<>/ \nu005c")),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text('a{}"\\$'), inner, max_size=3)),
)


@given(VALUES)
def test_plain_json_has_the_same_values_and_nothing_that_yarn_or_a_shell_changes(values: Any) -> None:
    text = plain(json.dumps(values))
    assert json.loads(text) == values
    assert text.isascii()
    for changed in ("{{", "}}", "`", "$", "'", "!", "<", ">", r"\\", '\\"'):
        assert changed not in text


@pytest.mark.parametrize("name", ["$(touch x)", "`touch x`", "a'b\"c\\d\\\\e", "{{HOME}}", "%s", "!x"])
def test_it_passes_the_two_shells_of_a_container_unchanged(name: str) -> None:
    text = plain(json.dumps({"a": {"b": {"name": name}}}))
    quoted = text.replace('"', '\\"')  # as Spark quotes it (YarnSparkHadoopUtil.escapeForShell)
    line = f"""exec /bin/bash -c "printf %s '{quoted}'" """.replace("{{", "$").replace("}}", "")  # as YARN expands it
    printed = subprocess.run(["/bin/bash", "-c", line], capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == {"a": {"b": {"name": name}}}
