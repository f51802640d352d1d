"""The root of what Walferry raises when something is wrong that it understands."""

from __future__ import annotations

from typing import Any, ClassVar

from walferry.base.texts import one_line

MAX_CHARS = 20_000  # of an error's text; whoever keeps it cuts it further


class WalferryError(Exception):
    """Says what is wrong and where, and then what to do about it, in one line.

    Names and texts of servers, znodes and other libraries stand in errors, and errors in logs, notes and on terminals. So this is
    where line breaks, and characters that control a terminal or change the order of others, become blanks.

    `advice` is the part of the message that says what to do. `retry_helps` tells whether the same step can succeed later though
    nothing is changed: a server may come back, but a wrong field of a connection stays wrong.
    """

    advice: str = ""
    retry_helps: ClassVar[bool] = True

    def __init__(self, problem: str, advice: str = "") -> None:
        problem, advice = one_line(problem, MAX_CHARS), one_line(advice, MAX_CHARS)
        super().__init__(f"{problem}. {advice}" if advice else problem)
        self.advice = advice or type(self).advice

    def __reduce__(self) -> tuple[Any, ...]:
        # Spark pickles what a task raises, and subclasses take other arguments than a message.
        return _restored, (type(self), self.args, self.__dict__)


def text_of(error: BaseException) -> str:
    """What an error says, with its kind if it is none of Walferry's."""
    return str(error) if isinstance(error, WalferryError) else f"{type(error).__name__}: {error}"


def _restored(kind: type[WalferryError], args: tuple[Any, ...], state: dict[str, Any]) -> WalferryError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error
