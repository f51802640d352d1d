"""Cuts outgoing bytes into pieces that are protected one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Buffer = bytes | bytearray | memoryview


def pieces(buffers: Sequence[Buffer], size: int) -> Iterator[bytes]:
    """Yield the same bytes in pieces of `size`; the last may be shorter."""
    kept: list[Buffer] = []
    held = 0
    for buffer in buffers:
        view = memoryview(buffer)
        while len(view) + held >= size:
            kept.append(view[: size - held])
            view = view[size - held :]
            yield b"".join(kept)
            kept, held = [], 0
        if len(view):
            kept.append(view)
            held += len(view)
    if kept:
        yield b"".join(kept)
