"""Whom to tell of alerts: Airflow's notifiers, or other callables that take a task's context.

An administrator names them in Airflow's configuration, never a form or a Variable: section [walferry], option `notifiers`, the
dotted path of one of them or of a list, such as `company.alerts.REPLICATION`. Their templates have `alert`, the text.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow.sdk import conf

from walferry.base.errors import WalferryError

OPTION = ("walferry", "notifiers")

log = logging.getLogger(__name__)
Notifier = Callable[[Any], Any]


class NotNotifiers(WalferryError):
    """The configuration does not name notifiers."""

    retry_helps = False


def notifiers() -> Sequence[Notifier]:
    """Those of the configuration. Raises NotNotifiers."""
    named = conf.get(*OPTION, fallback="")
    if not named:
        return ()
    where = f"option {OPTION[1]} in section [{OPTION[0]}] of Airflow's configuration, {named!r}"
    try:
        found: Any = conf.getimport(*OPTION)
    except Exception as error:  # whatever the module raises
        raise NotNotifiers(f"{where}, cannot be imported: {type(error).__name__}: {error}") from error
    every = list(found) if isinstance(found, (list, tuple)) else [found]
    if not all(callable(each) for each in every):
        raise NotNotifiers(f"{where}, is neither a notifier nor a list of them")
    return every


def notify(those: Sequence[Notifier], context: Mapping[str, Any], text: str) -> bool:
    """Tell them. Returns whether one was told, or there is none to tell; what goes wrong with others is logged."""
    told = 0
    for each in those:
        try:
            copy.copy(each)({**context, "alert": text})  # a notifier renders its fields in place
            told += 1
        except Exception as error:  # it is not ours, and must keep neither the others nor the run from going on
            # Its text is not shown: it often has the address that was called, which for webhooks is the secret.
            log.error("the notifier %s has failed: %s", type(each).__name__, type(error).__name__)
    return bool(told) or not those
