"""The Dockerfile, and the content of the image."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

REPO = Path(__file__).resolve().parents[3]
DOCKERFILE = (REPO / "Dockerfile").read_text("utf-8")
LINES = re.sub(r"\\\n", " ", "\n".join(line for line in DOCKERFILE.splitlines() if not line.startswith("#"))).splitlines()
STAGES = re.findall(r"^FROM (\S+) AS (\w+)$", DOCKERFILE, re.MULTILINE)
PIN = re.compile(r"(\S+)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+)")
ADDED = {"apache-airflow-providers-fab", "apache-airflow-providers-postgres", "setuptools"}
OTHERWISE = {"python-dateutil"}  # flask-appbuilder, which the FAB auth manager needs, wants an older one
NOT_TO_RUN = {"pytest", "mypy", "ruff", "hypothesis", "grpcio-tools", "playwright", "mkdocs-material", "check-jsonschema"}


def _stage(name: str) -> list[str]:
    """The lines of a stage."""
    begin = next(number for number, line in enumerate(LINES) if re.fullmatch(rf"FROM \S+ AS {name}", line))
    end = next((number for number in range(begin + 1, len(LINES)) if LINES[number].startswith("FROM ")), len(LINES))
    return LINES[begin:end]


def _pins(lock: Path) -> dict[str, tuple[str, str]]:
    found = (PIN.fullmatch(line) for line in lock.read_text("utf-8").splitlines())
    return {each[1].lower().replace("_", "-"): (each[2], each[3]) for each in found if each is not None}


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[=<>!\[ ]", each, maxsplit=1)[0].lower() for each in requirements}


def test_the_only_foreign_image_is_pinned_to_a_version() -> None:
    own = {name for _, name in STAGES}
    foreign = [image for image, _ in STAGES if image not in own]
    assert foreign == ["python:3.11.15-slim-bookworm"]


def test_the_image_runs_as_the_user_of_airflows_images() -> None:
    assert "USER 50000:0" in _stage("walferry")
    assert "useradd --uid 50000 --gid 0" in "".join(_stage("walferry"))
    assert not any(line.startswith("USER") for line in _stage("hbase"))


def test_signals_reach_the_program_and_its_dead_children_are_reaped() -> None:
    assert 'ENTRYPOINT ["/usr/bin/tini", "--", "/entrypoint"]' in _stage("walferry")


def test_packages_come_with_hashes_from_the_lock_alone() -> None:
    installs = [command for line in LINES if line.startswith("RUN") for command in line.split("&&") if " install " in command]
    of_pip = [command for command in installs if "pip " in command]
    assert of_pip
    assert all("--require-hashes" in command or "--no-deps --no-build-isolation /build" in command for command in of_pip)


def test_nothing_that_compiles_is_in_an_image_that_runs() -> None:
    for stage in ("base", "walferry", "hbase"):
        assert not re.search(r"\bgcc\b|build-essential|-jdk|-dev\b|\bmake\b|pip install", "\n".join(_stage(stage)))


def test_all_that_is_copied_is_in_the_context() -> None:
    let_in = re.findall(r"^!(\S+)$", (REPO / ".dockerignore").read_text("utf-8"), re.MULTILINE)
    copied = [word for line in LINES if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]]
    assert copied
    assert [path for path in copied if not (REPO / path).exists() or path.split("/")[0] not in let_in] == []
    assert ".env" not in let_in


def test_the_lock_of_the_image_has_the_versions_and_files_that_are_tested() -> None:
    image, tested = _pins(REPO / "containers" / "requirements.lock"), _pins(REPO / "requirements.lock")
    both = set(image) & set(tested) - OTHERWISE
    assert len(both) > 100
    assert {name: image[name] for name in both} == {name: tested[name] for name in both}


def test_the_image_has_all_that_the_package_asks_for_and_nothing_of_the_tests() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = _names([*project["dependencies"], *(each for extra in extras.values() for each in extra)])
    text = (REPO / "containers" / "requirements.txt").read_text("utf-8")
    assert _names([line for line in text.splitlines() if not line.startswith("#")]) == asked | ADDED
    pins = set(_pins(REPO / "containers" / "requirements.lock"))
    assert asked | ADDED <= pins
    assert pins & NOT_TO_RUN == set()


def test_modules_that_arrive_with_a_job_are_compiled_once_and_not_by_each_of_its_processes() -> None:
    assert "PYTHONDONTWRITEBYTECODE" not in DOCKERFILE
