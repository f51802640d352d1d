"""One session is used again; it gets the library when it lacks it, and another one takes its place when it is closed."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

import pytest

from tests.unit.jobs.connect.fake_connect import Fake
from walferry.jobs.connect import sessions
from walferry.jobs.connect.errors import ConnectFailed
from walferry.jobs.connect.server import Server
from walferry.jobs.connect.sessions import open_session, remember, remembered, session_id


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "walferry-0123456789abcdef.zip"
    path.write_bytes(b"the library")
    return path


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "memory"


def opened(fake: Fake, archive: Path, memory: Path) -> str:
    with Server(fake.address) as server:
        return open_session(server, archive, memory).id


def test_a_session_gets_the_library_once(fake: Fake, archive: Path, memory: Path) -> None:
    first = opened(fake, archive, memory)
    assert opened(fake, archive, memory) == first
    (request,) = fake.calls("AddArtifacts")
    library, marker = request.batch.artifacts
    assert (library.name, library.data.data) == ("pyfiles/walferry-0123456789abcdef.zip", b"the library")
    assert library.data.crc == zlib.crc32(b"the library")
    assert marker.name == f"cache/{hashlib.sha256(archive.name.encode()).hexdigest()}"


def test_a_server_that_was_started_anew_gets_the_library_again(fake: Fake, archive: Path, memory: Path) -> None:
    first = opened(fake, archive, memory)
    fake.has.clear()
    assert opened(fake, archive, memory) == first
    assert len(fake.calls("AddArtifacts")) == 2


def test_another_library_has_another_session(fake: Fake, archive: Path, memory: Path) -> None:
    other = archive.with_name("walferry-fedcba9876543210.zip")
    other.write_bytes(b"another library")
    assert opened(fake, archive, memory) != opened(fake, other, memory)


def test_a_closed_session_is_renewed_and_the_next_task_begins_there(fake: Fake, archive: Path, memory: Path) -> None:
    fake.closed = {session_id(archive, number) for number in range(3)}
    assert opened(fake, archive, memory) == session_id(archive, 3)
    assert len(fake.calls("ArtifactStatus")) == 4
    assert opened(fake, archive, memory) == session_id(archive, 3)
    assert len(fake.calls("ArtifactStatus")) == 5


@pytest.mark.parametrize(("limit", "value", "tried"), [("MAX_RENEWALS", 5, "5"), ("RENEWAL_SECONDS", 0.0, "1")])
def test_a_server_that_closes_every_session_is_not_asked_for_ever(
    fake: Fake, archive: Path, memory: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: float, tried: str
) -> None:
    monkeypatch.setattr(sessions, limit, value)
    fake.closed = {session_id(archive, number) for number in range(50)}
    with pytest.raises(ConnectFailed, match=f"has closed all of {tried} sessions"):
        opened(fake, archive, memory)
    assert len(fake.calls("ArtifactStatus")) == int(tried)


def test_another_server_has_sessions_of_its_own(fake: Fake, archive: Path, memory: Path) -> None:
    fake.closed = {session_id(archive, 0)}
    opened(fake, archive, memory)
    fake.closed = set()
    with Server(fake.address.__class__("localhost", fake.port)) as server:
        assert open_session(server, archive, memory).id == session_id(archive, 0)


@pytest.mark.parametrize("text", ["", "-1", "seven", "9" * 5000, "\x00\xff"])
def test_a_memory_that_makes_no_sense_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_bytes(text.encode("latin-1"))
    assert remembered(tmp_path / "file") == 0


def test_a_number_is_remembered_where_that_can_be_written(tmp_path: Path) -> None:
    remember(tmp_path / "new" / "file", 7)
    assert remembered(tmp_path / "new" / "file") == 7
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]
    remember(tmp_path / "new" / "file" / "below a file", 8)  # cannot be written, and nothing is lost


@pytest.mark.parametrize("times", [1, 3])
def test_a_library_that_another_task_gives_at_the_same_time_is_given_again(
    fake: Fake, archive: Path, memory: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr(sessions, "RETRY_SECONDS", 0.01)
    fake.mixed_up = times
    assert opened(fake, archive, memory) == session_id(archive, 0)
    assert len(fake.calls("AddArtifacts")) == times + 1


def test_a_server_that_never_takes_the_library_says_why(
    fake: Fake, archive: Path, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "RETRY_SECONDS", 0.01)
    fake.mixed_up = 100
    with pytest.raises(ConnectFailed, match="/tmp/artifacts/pyfiles/walferry-"):
        opened(fake, archive, memory)


def test_a_library_that_arrives_damaged_is_told(fake: Fake, archive: Path, memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "RETRY_SECONDS", 0.01)
    fake.damaged = True
    with pytest.raises(ConnectFailed, match=r"got pyfiles/walferry-.* damaged"):
        opened(fake, archive, memory)
