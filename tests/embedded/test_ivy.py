"""Ivy fetches jars from one repository and nowhere else, and a lost connection costs only the downloads under way."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from embedded import ivy
from embedded.ivy import Jar, JarsMissingError, fetch

NO_PAUSES = (0.0, 0.0)


class Repository:
    """A Maven repository on this machine. `faults` are answers to the first GETs of a path: "cut", "503" or "other bytes"."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, list[str]] = {}
        self.gets: Counter[str] = Counter()
        self.silent = False  # closes each connection without an answer
        self.hangs = threading.Event()  # while it is set there are no answers
        repository = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.answer(body=False)

            def do_GET(self) -> None:
                repository.gets[self.path] += 1
                self.answer(body=True)

            def answer(self, *, body: bool) -> None:
                content = repository.files.get(self.path)
                faults = repository.faults.get(self.path, []) if body else []
                fault = faults.pop(0) if faults else ""
                while repository.hangs.is_set():
                    time.sleep(0.05)
                if repository.silent:
                    return
                if content is None or fault == "503":
                    self.send_error(503 if fault else 404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if body:
                    shown = content[::-1] if fault == "other bytes" else content
                    self.wfile.write(shown[: len(content) // 2] if fault == "cut" else shown)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/maven/"

    def add(self, coordinate: str) -> Jar:
        group, name, version, *classifier = coordinate.split(":")
        content = random.Random(coordinate).randbytes(40_000)
        path = f"/maven/{group.replace('.', '/')}/{name}/{version}/{'-'.join([name, version, *classifier])}.jar"
        self.files[path] = content
        return Jar.parse(f"{coordinate} {hashlib.sha256(content).hexdigest()} {len(content)}")

    def path(self, jar: Jar) -> str:
        return next(path for path in self.files if path.endswith(f"/{jar.file_name.partition('_')[2]}"))


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    repository = Repository()
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", repository.url)
    thread = threading.Thread(target=repository.server.serve_forever, args=(0.05,))
    thread.start()
    yield repository
    repository.hangs.clear()
    repository.server.shutdown()
    thread.join()
    repository.server.server_close()


@pytest.fixture
def jars(repository: Repository) -> list[Jar]:
    coordinates = ["org.example:one:1.0", "org.example:two:1.0-beta", "org.example.more:one:2", "org.example:native:3.1:linux"]
    return [repository.add(coordinate) for coordinate in coordinates]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The folder for the jars, and the folder that keeps them until all have arrived."""
    (tmp_path / "jars").mkdir()
    return tmp_path / "jars", tmp_path / "arrived"


def assert_whole(jars: list[Jar], folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted(jar.file_name for jar in jars)
    assert all(jar.is_at(folder / jar.file_name) for jar in jars)


def test_only_the_repository_is_asked_whatever_lies_around(repository, jars, folders, tmp_path, monkeypatch):
    home = tmp_path / "home"
    for jar in jars:
        poms = home / ".m2" / "repository" / jar.group.replace(".", "/") / jar.name / jar.version
        poms.mkdir(parents=True)
        (poms / f"{jar.name}-{jar.version}.pom").write_text("<project/>")
    before = sorted(home.rglob("*"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Duser.home={home}")  # what ${user.home} means to Java: it does not read HOME

    fetch("jars", jars, *folders)

    assert_whole(jars, folders[0])
    assert repository.gets == Counter({repository.path(jar): 1 for jar in jars})
    assert sorted(home.rglob("*")) == before
    assert not folders[1].exists()


@pytest.mark.parametrize("fault", ["cut", "503", "other bytes"])
def test_a_try_that_fails_is_followed_by_another_for_what_is_missing(repository, jars, folders, fault, capsys):
    for jar in jars[:2]:
        repository.faults[repository.path(jar)] = [fault]

    fetch("jars", jars, *folders, pauses=NO_PAUSES)

    assert_whole(jars, folders[0])
    assert [repository.gets[repository.path(jar)] for jar in jars] == [2, 2, 1, 1]
    said = capsys.readouterr().err
    assert "jars: 2 jars have not arrived whole; trying again in 0 s\n" in said
    assert said.endswith("jars: 4 of 4 jars, 0 of 0 MB\n")


def test_what_has_arrived_is_kept_for_the_next_run(repository, jars, folders):
    repository.faults[repository.path(jars[0])] = ["cut"] * 3
    with pytest.raises(JarsMissingError, match=r"1 of 4 jars could not be fetched from http.*first is org\.example:one:1\.0"):
        fetch("jars", jars, *folders, pauses=NO_PAUSES)
    assert not list(folders[0].iterdir())
    assert {path.name for path in folders[1].glob("*.jar")} == {jar.file_name for jar in jars[1:]}

    fetch("jars", jars, *folders, pauses=())

    assert_whole(jars, folders[0])
    assert [repository.gets[repository.path(jar)] for jar in jars] == [4, 1, 1, 1]


def test_a_jar_that_the_repository_lacks_is_named_at_once(repository, jars, folders):
    del repository.files[repository.path(jars[3])]
    with pytest.raises(JarsMissingError, match=r"127\.0\.0\.1.* does not have org\.example:native:3\.1:linux: if that is a"):
        fetch("jars", jars, *folders, pauses=(3600,))


def test_a_repository_that_does_not_answer_is_not_one_that_lacks_the_jars(repository, jars, folders):
    repository.silent = True
    with pytest.raises(JarsMissingError, match=r"4 of 4 jars could not be fetched .*check the network(.|\n)*Server access error"):
        fetch("jars", jars, *folders, pauses=NO_PAUSES)


def test_a_repository_that_hangs_is_not_waited_for(repository, jars, folders, monkeypatch):
    monkeypatch.setattr(ivy, "STALLED_SECONDS", 2.0)
    repository.hangs.set()
    with pytest.raises(JarsMissingError, match=r"check the network(.|\n)*nothing has arrived for 2 s"):
        fetch("jars", jars, *folders, pauses=())


def test_bytes_that_are_not_those_of_the_lock_are_not_kept(repository, jars, folders):
    repository.faults[repository.path(jars[1])] = ["other bytes"] * 3
    with pytest.raises(JarsMissingError, match=r"what arrived is not what jars\.lock says: org\.example:two:1\.0-beta"):
        fetch("jars", jars, *folders, pauses=NO_PAUSES)
    assert not (folders[1] / jars[1].file_name).exists()
