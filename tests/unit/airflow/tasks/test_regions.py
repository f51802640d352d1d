"""The result of a look at regions, as text and as XCom: bounded, and harmless."""

from __future__ import annotations

import json

from walferry.airflow.tasks.regions import MAX_ROWS, MAX_TEXT_CHARS, RegionsReport
from walferry.master.survey import RegionSurvey, SurveyRow

HOSTILE = "\x1b[2J\u202e{{ conn.slack.password }}\n" + "x" * 100_000


def row(n: int, *, stuck: bool = True) -> SurveyRow:
    what = "nothing is done by itself"
    return SurveyRow(f"{n:032x}", "t", "", "OPENING", 700.0, "rs1,16020,1", "an operator", what, "it hangs", stuck)


def survey(rows: list[SurveyRow], problems: list[str] | None = None, silent: list[str] | None = None) -> RegionSurvey:
    return RegionSurvey("", ["rs1,16020,1"], silent or [], [], True, 9, 8, 0, rows, problems or [])


def test_without_a_stuck_region_all_is_well() -> None:
    report = RegionsReport(survey([row(1, stuck=False)]))
    assert report.to_xcom()["ok"]
    assert report.as_text().startswith("8 of 9 regions are open at 1 RegionServers; no master is active")
    assert "WARNING" not in report.as_text()


def test_a_stuck_region_is_a_finding_with_its_state_its_server_and_what_to_do() -> None:
    (finding,) = survey([row(1)]).findings
    assert finding.line == (
        f"region {1:032x} of t: OPENING: at rs1,16020,1 for 700 s: it hangs. Next, an operator: nothing is done by itself"
    )


def test_a_silent_server_and_an_unreadable_znode_are_findings() -> None:
    found = survey([], ["znode /hbase/table/t: it is broken"], ["rs2,16020,2"])
    assert [finding.text for finding in found.findings] == [
        "RegionServer rs2,16020,2 has not said which regions it serves", "znode /hbase/table/t: it is broken"
    ]  # fmt: skip


def test_reports_are_bounded_and_their_text_is_harmless() -> None:
    report = RegionsReport(survey([row(n) for n in range(5000)], [HOSTILE] * 1000), [HOSTILE] * 1000)
    reported = report.to_xcom()
    assert json.loads(json.dumps(reported)) == reported
    assert (len(reported["regions"]), reported["regions_left_out"], len(reported["findings"])) == (
        MAX_ROWS,
        5000 - MAX_ROWS,
        MAX_ROWS,
    )
    assert reported["lines"][-1] == "(800 more lines)"
    for text in (report.as_text(), json.dumps(reported, ensure_ascii=False)):
        assert not {"\x1b", "\u202e"} & set(text)
        assert len(text) < 3 * MAX_ROWS * (MAX_TEXT_CHARS + 400)
