"""Tables as an operator types them into a form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from walferry.hbase.names import without_default_namespace


def tables_of(params: Mapping[str, Any]) -> list[str]:
    """The tables of the parameter `tables` as HBase names them: those of the default namespace are without it."""
    return [without_default_namespace(name.strip()) for name in params["tables"] or ()]
