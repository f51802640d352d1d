"""Defines the base class of all errors that Walferry raises for problems that it understands."""

from __future__ import annotations

from typing import Any, ClassVar

from walferry.base.texts import one_line

MAX_CHARS = 20_000  # of an error's text; code that stores the text cuts it further


class WalferryError(Exception):
    """An error that says in one line what is wrong and where, and then what to do.

    Errors contain names and texts of servers, znodes and other libraries, and appear in logs, notes and on terminals. So this
    class replaces line breaks, and characters that control a terminal or reorder others, by blanks.

    `advice` is the part of the message that says what to do, by default the class's. `retry_helps` says whether the same step can
    succeed later without a change: a server may come back, but a wrong field of a connection stays wrong.
    """

    advice: str = ""
    retry_helps: ClassVar[bool] = True

    def __init__(self, problem: str, advice: str = "") -> None:
        problem, self.advice = one_line(problem, MAX_CHARS), one_line(advice or type(self).advice, MAX_CHARS)
        super().__init__(f"{problem}. {self.advice}" if self.advice else problem)

    def __reduce__(self) -> tuple[Any, ...]:
        # Spark pickles a task's error, and subclasses take other arguments than a message.
        return _restored, (type(self), self.args, self.__dict__)


def text_of(error: BaseException) -> str:
    """Return an error's text, with its kind if it is not one of Walferry's."""
    return str(error) if isinstance(error, WalferryError) else f"{type(error).__name__}: {error}"


def _restored(kind: type[WalferryError], args: tuple[Any, ...], state: dict[str, Any]) -> WalferryError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error
