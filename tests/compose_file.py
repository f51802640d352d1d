"""docker-compose.yaml as Compose reads it: with variables put in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

REPO = Path(__file__).resolve().parents[1]
FILE = REPO / "docker-compose.yaml"
_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?::([-?])([^}]*))?\})")


def compose() -> dict[str, Any]:
    """Return the file with its anchors merged, and without any variable put in. A caller may change its copy."""
    return deepcopy(_compose())


@cache
def _compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def variables() -> dict[str, str | None]:
    """Return the variables that the file asks for, with their defaults; None means that Compose refuses to start without it."""
    found = {name: rest if kind == "-" else None for name, kind, rest in _VARIABLE.findall(FILE.read_text("utf-8")) if name}
    return {**found, **{secret["environment"]: None for secret in compose()["secrets"].values()}}


def put_in(text: str, values: Mapping[str, str]) -> str:
    """Return the text as Compose passes it on. Raises KeyError for a variable that Compose would refuse to go without."""

    def value(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        if name is None:
            return "$"
        return values.get(name) or rest if kind == "-" else values[name]

    return _VARIABLE.sub(value, text)


def words(value: object) -> list[str]:
    """Return a command or a health check's test as a program gets it."""
    if isinstance(value, str):
        return ["sh", "-c", value]
    assert isinstance(value, list)
    first, *rest = (str(word) for word in value)
    return rest if first == "CMD" else ["sh", "-c", *rest] if first == "CMD-SHELL" else [first, *rest]
