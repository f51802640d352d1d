"""Times as an operator types them into a form."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from walferry.runs.input.recovery_input import InputError


def moment(name: str, text: Any) -> datetime:
    """The time that the parameter `name` gives, with its zone. Raises InputError."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise InputError(
            f"{name} is {str(text)[:100]!r}; it must be a time with its zone, such as 2025-03-01T10:00:00+00:00. Nothing was done"
        )
    return found
