"""A summary comes back from ZooKeeper, where anything may have been planted in its place."""

from __future__ import annotations

import json
from dataclasses import asdict, fields

import pytest

from walferry.base.records import NotARecord
from walferry.engine.summary import GroupSummary

ODD = "a\nFAILED \x1b[2J\u202e"


def test_no_text_of_a_planted_summary_can_end_a_line_or_control_a_terminal() -> None:
    texts = {each.name: ODD for each in fields(GroupSummary) if each.type in ("str", "str | None") and each.name != "group"}
    names = {"tables": {ODD: [1, 2, 3]}, "logEditsFiltered": {ODD: 1}, "deletedAtBoth": [ODD]}
    found = GroupSummary.from_json(json.dumps({"group": "g", "status": "done"} | texts | names))
    assert json.dumps(asdict(found), ensure_ascii=False).isprintable()
    assert "\\n" not in json.dumps(asdict(found)).replace("\\\\u000a", "")
    for odd in ({"group": ODD}, {"group": "g", "tables": {"t": [1]}}):
        with pytest.raises(NotARecord):
            GroupSummary.from_json(json.dumps({"status": "done"} | odd))
