"""Writes records as JSON to ZooKeeper, to a file or for another process, and reads them with care: others may have changed them.

For any other text the reader raises `NotARecord`. It raises no other exception, and returns no value of a wrong type.
`zk.records` reads and writes records in znodes.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from walferry.base.texts import visible

MAX_BYTES = 4 << 20  # a znode has at most 1 MiB by default (jute.maxbuffer)
MAX_DEPTH = 20
MAX_VALUES = 500_000  # in one text: each takes up to a hundred bytes of memory, but only three in the text
MAX_REASON_CHARS = 300
_MAX_SHOWN_CHARS = 60
_LARGEST = 1 << 63  # numbers are counts, sizes and times

T = TypeVar("T")


class NotARecord(ValueError):
    """A text is not the record that it should be. The message says why in one bounded line."""

    def __init__(self, reason: str) -> None:
        super().__init__(visible(reason, MAX_REASON_CHARS))


class Record:
    """A mixin for dataclasses that are records. It converts them to and from a line of JSON."""

    def to_json(self) -> str:
        """Return this record as text for `from_json`."""
        return text_of(asdict(self))  # type: ignore[call-overload]  # of a dataclass

    @classmethod
    def from_json(cls, text: bytes | str, most_bytes: int = MAX_BYTES) -> Self:
        """Return the record that `to_json` wrote, without unknown fields. Raises NotARecord."""
        return record_of(cls, parsed_object(text, most_bytes))


class Strict:
    """A mixin for dataclasses whose unknown fields are an error, because they may demand what this version would not do."""


def text_of(values: Any) -> str:
    """Return the values of a record as a line of JSON. Bytes become hexadecimal digits."""
    return json.dumps(values, default=bytes.hex)


def parsed(text: bytes | str, most_bytes: int = MAX_BYTES) -> Any:
    """Return the value of a JSON text. The text must be bounded, in UTF-8, and not nested deeply, with numbers of 64 bits.

    It is bounded in bytes and in the number of values. Raises NotARecord.
    """
    if len(text) > most_bytes:
        raise NotARecord(f"it has {len(text):,} bytes, more than {most_bytes:,}")
    try:
        text = text.decode() if isinstance(text, bytes) else text
        # Strings in the JSON may contain these characters, too, but none of our records contains so many.
        value = json.loads(text) if (most := sum(map(text.count, ",[{"))) <= MAX_VALUES else None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise NotARecord(f"it is not JSON: {error}") from None
    if most > MAX_VALUES:
        raise NotARecord(f"it has more than {MAX_VALUES:,} values")
    _check(value, MAX_DEPTH)
    return value


def parsed_object(text: bytes | str, most_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Return the JSON object in a text, read as by `parsed`. Raises NotARecord."""
    value = parsed(text, most_bytes)
    if not isinstance(value, dict):
        raise NotARecord(f"it is {_shown(value)}, not an object")
    return value


def record_of(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return the dataclass with these values from a JSON object, without fields of other versions. Raises NotARecord."""
    found: T = _dataclass(kind, values, kind.__name__)
    return found


def converted(hint: Any, value: Any, where: str) -> Any:
    """Convert a value from JSON to a type; messages call it `where`. Bytes are hexadecimal digits. Raises NotARecord."""
    if hint is Any:
        return value
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(hint), value, where)
    read = _READERS.get(origin or hint)
    if read is not None:
        return read(get_args(hint), value, where)
    if is_dataclass(hint):
        return _dataclass(hint, value, where)
    if issubclass(hint, Enum):
        return _enum(hint, value, where)
    if isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise _wrong(where, value, hint.__name__)


def _dataclass(kind: Any, values: Any, where: str) -> Any:
    if not isinstance(values, Mapping):
        raise _wrong(where, values, "an object")
    known, needed = _fields(kind)
    if lacking := needed - values.keys():
        raise NotARecord(f"{where} has no {min(lacking)}")
    if issubclass(kind, Strict) and (unknown := values.keys() - known.keys()):
        raise NotARecord(f"{where} has the unknown field {min(unknown)}")
    return kind(**{name: converted(hint, values[name], name) for name, hint in known.items() if name in values})


@cache
def _fields(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the types of a dataclass's fields, and the fields without a default."""
    hints = get_type_hints(kind)
    given = [each for each in fields(kind) if each.init]
    needed = [each.name for each in given if each.default is MISSING and each.default_factory is MISSING]
    return {each.name: hints[each.name] for each in given}, frozenset(needed)


def _one_of(hints: Sequence[Any], value: Any, where: str) -> Any:
    if value is None and type(None) in hints:
        return None
    (hint,) = [each for each in hints if each is not type(None)]
    return converted(hint, value, where)


def _number(_: Sequence[Any], value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(where, value, "a number")
    return value


def _list(hints: Sequence[Any], value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(where, value, "a list")
    each_of = [hint for hint in hints if hint is not ...]
    if len(each_of) == 1:
        return [converted(each_of[0], each, where) for each in value]
    if len(each_of) != len(value):
        raise _wrong(where, value, f"a list of {len(each_of)}")
    return [converted(hint, each, where) for hint, each in zip(each_of, value, strict=True)]


def _mapping(hints: Sequence[Any], value: Any, where: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise _wrong(where, value, "an object")
    names, values = hints
    return {converted(names, name, where): converted(values, each, where) for name, each in value.items()}


def _bytes(_: Sequence[Any], value: Any, where: str) -> bytes:
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError):
        raise _wrong(where, value, "hexadecimal digits") from None


def _enum(hint: type[Enum], value: Any, where: str) -> Enum:
    for each in hint:
        if each.value == value:
            return each
    raise _wrong(where, value, f"one of {', '.join(str(each.value) for each in hint)}")


_READERS: Mapping[Any, Callable[[Sequence[Any], Any, str], Any]] = {
    bytes: _bytes, float: _number, Sequence: _list, list: _list, Mapping: _mapping, dict: _mapping,
    tuple: lambda *args: tuple(_list(*args)),
}  # fmt: skip


def _check(value: Any, depth: int) -> None:
    """Raise NotARecord for deep nesting, infinite or too large numbers, and texts that UTF-8 cannot encode."""
    if not depth:
        raise _too_deep()
    if isinstance(value, dict):
        for name, each in value.items():
            _check_text(name)
            _check(each, depth - 1)
    elif isinstance(value, list):
        for each in value:
            _check(each, depth - 1)
    elif isinstance(value, str):
        _check_text(value)
    elif isinstance(value, int | float) and not abs(value) < _LARGEST:  # this includes NaN
        raise NotARecord(f"it has the number {_shown(value)}")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotARecord(f"it has the text {_shown(text)}, which has no form in UTF-8") from None


def _too_deep() -> NotARecord:
    return NotARecord(f"it is nested more than {MAX_DEPTH} levels deep")


def _wrong(where: str, value: Any, wanted: str) -> NotARecord:
    return NotARecord(f"{where} is {_shown(value)}, not {wanted}")


def _shown(value: Any) -> str:
    return visible(str(value), _MAX_SHOWN_CHARS) if isinstance(value, int | float | str) else type(value).__name__
