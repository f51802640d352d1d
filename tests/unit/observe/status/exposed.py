"""Reads Prometheus' text format back, for tests."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LABEL = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"([a-zA-Z_:][\w:]*)\{{({_LABEL}(?:,{_LABEL})*)\}} (-?[\d.e+-]+)")
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """The samples of a text, which is checked against the grammar."""
    assert text.endswith("\n")
    family = None
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
        elif line.startswith("#"):
            assert line == f"# TYPE {family} gauge"
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] == family
            labels = LABEL.findall(match[2])
            plain = {name: re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), value) for name, value in labels}
            yield match[1], plain, float(match[3])
