"""Tables as an operator types them into a form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULT_NAMESPACE = "default:"


def tables_of(params: Mapping[str, Any]) -> list[str]:
    """The tables of the parameter `tables` as HBase names them: those of the default namespace are without it."""
    return [name.strip().removeprefix(DEFAULT_NAMESPACE) for name in params["tables"] or ()]
