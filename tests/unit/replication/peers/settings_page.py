"""The tables of docs/settings.md, made from the table of settings: `python -m tests.unit.replication.peers.settings_page`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path

from walferry.replication.peers.settings import FIELDS, MARKS, SHIPPING, Setting

PAGE = Path(__file__).resolve().parents[4] / "docs/settings.md"


def documented(page: str) -> str:
    """The page with its tables made anew."""
    for name, lines in {
        "shipping": _table(
            ("setting", "default", "values", "what it is"),
            ((f"`{each.name}`", _default(each), _values(each), each.what + each.remark) for each in SHIPPING),
        ),
        "marks": _table(
            ("key", "values", "what it says", "written by"),
            ((f"`{each.key}`", _values(each), each.remark, each.set_by) for each in MARKS),
        ),
        "fields": _table(
            ("field or setting", "values", "what it is", "written by"),
            ((f"`{each.key}`", _values(each), each.remark, each.set_by) for each in FIELDS),
        ),
    }.items():
        before, begin, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->\n")
        assert all((begin, end)), name
        page = f"{before}{begin}\n{lines}\n{end}{after}"
    return page


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, *rows)).replace("\n", f"\n{'|---' * len(head)}|\n", 1)


def _default(setting: Setting) -> str:
    value = setting.default
    if isinstance(value, StrEnum):
        return f"`{value}`"
    return (
        str(value).lower() if setting.choices else f"{value * (1000 if setting.unit == 'ms' else 1):.10g} {setting.unit}".rstrip()
    )


def _values(setting: Setting) -> str:
    if issubclass(setting.kind, StrEnum):
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    return setting.allowed.removeprefix("a ")


if __name__ == "__main__":
    PAGE.write_text(documented(PAGE.read_text()))
