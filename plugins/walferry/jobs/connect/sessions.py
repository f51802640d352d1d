"""Opens the session that all jobs with the same version of the library share.

The session's id follows from a number and from the archive's name, which follows from the library's bytes. A server that was
restarted opens the session again under the same id, but without the library, so the library is sent again. A session that a
server has closed (by default, after an hour without a job) stays closed, so the next number is taken. A file remembers the
number. Without the file, numbers are tried from 0 on.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import tempfile
import time
import uuid
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.message import Message

from walferry.base.protos import spark_connect_pb2 as messages
from walferry.jobs.connect.errors import ConnectFailed, ServerGone, ServerRefuses, SessionClosed
from walferry.jobs.connect.server import Server

MAX_RENEWALS = 10_000  # a server remembers 1,000 closed sessions
RENEWAL_SECONDS = 20.0  # for all renewals
TRIES = 4  # at sending the library to a session
RETRY_SECONDS = 0.5
_NAMESPACE = uuid.UUID("0b1f8a52-6f0e-4c56-9a3d-7d5b0c1f4e77")

M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class Session:
    """A server's session that has the library."""

    server: Server
    id: str

    def request(self, kind: Callable[..., M], **fields: Any) -> M:
        """Return a request that concerns this session."""
        user = messages.UserContext(user_id=self.server.address.user)
        return kind(session_id=self.id, user_context=user, **fields)

    def has(self, *names: str) -> Mapping[str, bool]:
        """Return which cached artifacts of these names the server has. Raises ConnectFailed."""
        asked = self.request(messages.ArtifactStatusesRequest, names=names)
        statuses = self.server.call("ArtifactStatus", asked, messages.ArtifactStatusesResponse).statuses
        return {name: statuses[name].exists for name in names}

    def interrupt(self, kind: messages.InterruptRequest.InterruptType, **which: str) -> int:
        """End executions. Returns how many there were. Raises ConnectFailed."""
        request = self.request(messages.InterruptRequest, interrupt_type=kind, **which)
        return len(self.server.call("Interrupt", request, messages.InterruptResponse).interrupted_ids)


def open_session(server: Server, archive: Path, memory: Path) -> Session:
    """Return the session with the library in `archive`. The folder `memory` remembers sessions' numbers. Raises ConnectFailed."""
    file = memory / hashlib.sha256(f"{server.address} {server.address.user} {archive.name}".encode()).hexdigest()[:16]
    first = remembered(file)
    give_up = time.monotonic() + RENEWAL_SECONDS
    for number in range(first, first + MAX_RENEWALS):
        session = Session(server, session_id(archive, number))
        with contextlib.suppress(SessionClosed):
            _give_library(session, archive)
            if number != first:
                remember(file, number)
            return session
        if time.monotonic() > give_up:
            break
    raise ConnectFailed(f"Spark Connect server {server.address} has closed all of {number - first + 1} sessions")


def session_id(archive: Path, number: int) -> str:
    """Return the id of the session with this number, as a UUID."""
    return str(uuid.uuid5(_NAMESPACE, f"{archive.name} {number}"))


def remembered(file: Path) -> int:
    """Return the number in the file; 0 if there is none."""
    try:
        text = file.read_text()
    except (OSError, ValueError):
        return 0
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def remember(file: Path, number: int) -> None:
    """Write the number. It only saves time, so an error does not matter."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(handle, "w") as out:
            out.write(str(number))
        os.replace(unfinished, file)


def _give_library(session: Session, archive: Path) -> None:
    """Send the library to the session, unless it has it. Servers mix up artifacts of one name that come at the same time."""
    marker = f"cache/{hashlib.sha256(archive.name.encode()).hexdigest()}"  # a server says only of cached artifacts if it has them
    for left in reversed(range(TRIES)):
        if session.has(marker)[marker]:
            return
        try:
            _add(session, _artifact(f"pyfiles/{archive.name}", archive.read_bytes()), _artifact(marker, archive.name.encode()))
        except (SessionClosed, ServerGone, ServerRefuses):
            raise
        except ConnectFailed:
            if not left:
                raise
            time.sleep(random.uniform(0.5, 1.0) * RETRY_SECONDS)
        else:
            return


def _add(session: Session, *artifacts: messages.AddArtifactsRequest.SingleChunkArtifact) -> None:
    batch = messages.AddArtifactsRequest.Batch(artifacts=artifacts)
    done = session.server.add_artifacts(session.request(messages.AddArtifactsRequest, batch=batch))
    if broken := [artifact.name for artifact in done.artifacts if not artifact.is_crc_successful]:
        raise ConnectFailed(f"Spark Connect server {session.server.address} got {', '.join(broken)} damaged")


def _artifact(name: str, data: bytes) -> messages.AddArtifactsRequest.SingleChunkArtifact:
    chunk = messages.AddArtifactsRequest.ArtifactChunk(data=data, crc=zlib.crc32(data))
    return messages.AddArtifactsRequest.SingleChunkArtifact(name=name, data=chunk)
