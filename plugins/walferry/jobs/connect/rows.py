"""Rows of one column of text, as a server sends them: bounded in number and size, and checked before they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from walferry.base.texts import one_line
from walferry.jobs.connect.errors import ConnectFailed

MAX_STREAM_BYTES = 8 << 20  # Spark sends 4 MB at a time
MAX_TEXT_CHARS = 1 << 20
MAX_WHY_CHARS = 300


def texts(server: str, streams: Iterable[bytes], column: str, max_rows: int) -> Iterator[str]:
    """The rows of Arrow streams. `server` names the server in errors. Raises ConnectFailed if it sends anything else, or more."""
    left = max_rows
    for stream in streams:
        import pyarrow as pa  # while the job runs, not before it begins

        try:
            found = _texts_of(stream, column, left)
        except (pa.ArrowException, OSError, ValueError) as error:
            why = one_line(str(error), MAX_WHY_CHARS)
            raise ConnectFailed(f"Spark Connect server {server} sent rows that cannot be read: {why}") from error
        left -= len(found)
        yield from found


def _texts_of(stream: bytes, column: str, max_rows: int) -> list[str]:
    """The rows of one stream. Raises ValueError, and Arrow's errors."""
    import pyarrow as pa

    if len(stream) > MAX_STREAM_BYTES:
        raise ValueError(f"{len(stream)} bytes at once, more than {MAX_STREAM_BYTES}")
    found: list[str] = []
    with pa.ipc.open_stream(stream) as reader:
        types = pa.types.is_string, pa.types.is_large_string
        if reader.schema.names != [column] or not any(is_text(reader.schema.types[0]) for is_text in types):
            raise ValueError(f"they do not have one column {column!r} of text")
        for batch in reader:
            batch.validate(full=True)  # else offsets that point elsewhere are followed
            if len(found) + batch.num_rows > max_rows:
                raise ValueError("they are more than were asked for")
            found += batch.column(0).to_pylist()
    if any(text is None or len(text) > MAX_TEXT_CHARS for text in found):
        raise ValueError(f"a row is null, or has more than {MAX_TEXT_CHARS} characters")
    return found
