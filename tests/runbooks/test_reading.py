"""A runbook's steps are read from its markdown, and each runbook has its parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.command_words import wrong_with
from tests.runbooks.reading import FOLDER, SECTIONS, TUTORIAL, Act, Command, RunbookError, names, read, steps

PAGES = [*(FOLDER / f"{name}.md" for name in [*names(), "index"]), FOLDER.parent / f"{TUTORIAL}.md"]


def test_commands_have_the_output_below_them() -> None:
    text = "Text\n\n```console\n$ walferry plan PEER\nSERVER  …\n\n$ walferry ship PEER    # status 3: it is stuck\n```\n"
    assert list(steps(text)) == [Command(4, "walferry plan PEER", ("SERVER  …",)), Command(7, "walferry ship PEER", (), status=3)]


def test_a_command_may_go_on_in_the_next_line_and_be_repeated() -> None:
    text = "```console\n$ airflow dags trigger d \\\n    --conf '{}'    # again until it has ended\nok\n```\n"
    assert list(steps(text)) == [Command(2, "airflow dags trigger d --conf '{}'", ("ok",), again=True)]


def test_the_demos_scripts_and_other_acts_are_done_where_they_stand() -> None:
    text = (
        "Stop it (in the demo: `python -m demo.stop_peer_cluster`), then `python -m demo.stop_peer_cluster --undo`.\n<!-- here: "
        "x y -->\n"
    )
    assert [step.text for step in steps(text)] == [
        "python -m demo.stop_peer_cluster",
        "python -m demo.stop_peer_cluster --undo",
        "x y",
    ]
    assert all(isinstance(step, Act) for step in steps(text))


def test_lines_for_hbases_shell_are_acts_in_their_order() -> None:
    text = "```hbase\nsource> create 't', 'f'\npeer> create 't', 'f'\n```\n```console\n$ walferry check\n```\n"
    assert list(steps(text)) == [
        Act(2, "source> create 't', 'f'"),
        Act(3, "peer> create 't', 'f'"),
        Command(6, "walferry check", ()),
    ]


def test_other_code_is_not_carried_out() -> None:
    assert list(steps("```\n$ rm -rf /\n```\n```sh\n$ reboot\n```\n`walferry status`\n")) == []


@pytest.mark.parametrize("text", ["```console\n$ a\n", "```console\nno command\n```\n"])
def test_what_is_no_runbook_is_refused(text: str) -> None:
    with pytest.raises(RunbookError):
        list(steps(text))


@pytest.mark.parametrize("name", names())
def test_a_runbook_says_how_to_notice_what_to_do_and_how_to_see_that_it_is_over(name: str) -> None:
    headings = re.findall(r"^## (.+)$", (FOLDER / f"{name}.md").read_text(), re.MULTILINE)
    assert [heading for heading in headings if heading in SECTIONS] == list(SECTIONS)
    assert any(isinstance(step, Command) for step in read(name))


@pytest.mark.parametrize("name", names())
def test_the_index_leads_to_each_runbook(name: str) -> None:
    assert f"({name}.md)" in (FOLDER / "index.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_command_of_walferry_in_a_runbook_is_there_with_its_options(page: Path) -> None:
    for text in re.findall(r"walferry ((?:[a-z-]+ ?)+[^`\n#]*)", _code(page.read_text())):
        assert wrong_with(text) is None


def _code(markdown: str) -> str:
    """Return the commands in blocks and between backticks, one per line."""
    return "\n".join([*re.findall(r"^\s*\$ (.+)$", markdown, re.MULTILINE), *re.findall(r"`([^`\n]+)`", markdown)])
