"""Parses protobuf messages from outside: from files, znodes and sockets. A varint of 32 bits, the length, precedes some."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

M = TypeVar("M", bound=Message)
_MAX_VARINT32_BYTES = 5


def varint(value: int) -> bytes:
    """Encode a non-negative number as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def delimited(message: bytes) -> bytes:
    """Return the message with its length before it."""
    return varint(len(message)) + message


def length_at(data: bytes | memoryview, position: int) -> tuple[int, int] | None:
    """Return the 32-bit length at `position` of `data`, and the position after it; None if it is missing or incomplete."""
    length = 0
    for i, byte in enumerate(data[position : position + _MAX_VARINT32_BYTES]):
        length |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return length, position + i + 1
    return None


def parse_message(kind: type[M], data: bytes) -> M:
    """Parse the message in `data`, and check that it is complete and its strings are text. Raises DecodeError.

    protobuf itself accepts a proto2 message without its required fields, and returns bytes for a string that is not UTF-8.
    """
    message = kind.FromString(data)
    if not message.IsInitialized():
        raise DecodeError(f"{kind.DESCRIPTOR.name} without {_lacking(message)}")
    if (field := _not_text(message)) is not None:
        raise DecodeError(f"{field} is not UTF-8")
    return message


def unknown_fields(message: Message, known: Collection[tuple[int, int]] = ()) -> list[str]:
    """Return the unknown fields of the message, and of the messages within it, as "Message field 12", each once.

    `known` are fields of the message in another of its versions, by number and wire type.
    """
    found = {
        f"{message.DESCRIPTOR.name} field {field.field_number}": None
        for field in _unknown(message)
        if (field.field_number, field.wire_type) not in known
    }
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                found |= dict.fromkeys(unknown_fields(each))
    return list(found)


def unknown_numbers(message: Message, known: tuple[int, int]) -> list[int]:
    """Return the values of another version's field, given by number and wire type, as unsigned numbers."""
    return [int(field.data) for field in _unknown(message) if (field.field_number, field.wire_type) == known]


def _unknown(message: Message) -> list[Any]:
    """Return the message's UnknownField objects, which protobuf does not type."""
    fields = UnknownFieldSet(message)
    return [fields[i] for i in range(len(fields))]


def _lacking(message: Message) -> str:
    """Return the name of the first missing required field. A hostile message may lack millions, so this does not list them."""
    for field in message.DESCRIPTOR.fields:
        if field.is_required and not message.HasField(field.name):
            return field.name
    inner = (
        f"{field.name}.{_lacking(each)}"
        for field, value in message.ListFields()
        if field.message_type is not None
        for each in (value if field.is_repeated else [value])
        if not each.IsInitialized()
    )
    return next(inner)


def _not_text(message: Message) -> str | None:
    """Return the name of the first field that should be text but is not."""
    for field, value in message.ListFields():
        values = value if field.is_repeated else [value]
        if field.type == field.TYPE_STRING:
            if not all(isinstance(each, str) for each in values):
                return str(field.full_name)
        elif field.message_type is not None:
            for each in values:
                if (inner := _not_text(each)) is not None:
                    return inner
    return None
