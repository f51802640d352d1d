"""Executors that have nothing but Spark and Python get the packages in one archive."""

import json
import os
import subprocess
import sys
import tarfile
from importlib.metadata import PackagePath, PathDistribution, distribution
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from walferry.jobs import environment
from walferry.jobs.environment import NotPacked, needed, pack

HERE = Path(os.path.realpath(sys.executable))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the library need a package of Python modules, and one with a library in C."""
    monkeypatch.setattr(environment, "_requirements", lambda: [Requirement("click"), Requirement("protobuf")])


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="fully_trusted")
    return folder / "bin/python"


def test_its_python_finds_the_packages_wherever_it_is_unpacked(small: None, tmp_path: Path) -> None:
    assert {name.partition("==")[0] for name in pack(tmp_path / "env.tar.gz", HERE)} == {"click", "protobuf"}
    python = unpacked(tmp_path / "env.tar.gz", tmp_path / "elsewhere/environment")
    program = "import click, google.protobuf.message, sys; print(click.__file__); import numpy"
    done = subprocess.run(
        ["./environment/bin/python", "-c", program], cwd=python.parents[2], env={}, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith(str(python.parents[1] / "lib")), done.stderr
    assert "No module named 'numpy'" in done.stderr


IMPORT = """
import json, sys
compiled = []
sys.addaudithook(lambda event, args: compiled.append(str(args[1])) if event == "compile" else None)
import click, google.protobuf
print(json.dumps([[name for name in compiled if name.endswith(".py")], google.protobuf.__version__]))
"""


def imported(python: Path) -> tuple[list[str], str]:
    """Import from an environment. Return the modules that Python had to compile for it, and the version that one of them says."""
    done = subprocess.run([python, "-c", IMPORT], env={}, capture_output=True, text=True, check=True)
    compiled, version = json.loads(done.stdout)
    return compiled, version


def test_nothing_is_compiled_where_executors_cannot_write_beside_the_modules(small: None, tmp_path: Path) -> None:
    pack(tmp_path / "env.tar.gz", HERE)
    python = unpacked(tmp_path / "env.tar.gz", tmp_path / "environment")
    files = [path for path in (tmp_path / "environment").rglob("*") if path.is_file() and not path.is_symlink()]
    for file in files:
        os.utime(file)  # YARN and Spark may unpack with other times than the archive's
        file.chmod(0o444)
    assert imported(python) == ([], distribution("protobuf").version)
    assert str(tmp_path).encode() not in b"".join(file.read_bytes() for file in files if file.suffix == ".pyc")


def test_a_module_that_was_changed_after_it_was_unpacked_is_not_run_as_it_was(small: None, tmp_path: Path) -> None:
    pack(tmp_path / "env.tar.gz", HERE)
    python = unpacked(tmp_path / "env.tar.gz", tmp_path / "environment")
    (module,) = (tmp_path / "environment").rglob("google/protobuf/__init__.py")
    before, version = module.stat(), distribution("protobuf").version
    other = version[:-1] + ("8" if version[-1] == "9" else "9")
    module.write_text(module.read_text().replace(version, other))
    os.utime(module, (before.st_atime, before.st_mtime))
    assert imported(python) == ([str(module)], other)


def test_the_same_packages_give_the_same_bytes_and_another_python_is_what_is_said(small: None, tmp_path: Path) -> None:
    pack(tmp_path / "one.tar.gz", HERE)
    pack(tmp_path / "two.tar.gz", HERE)
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    pack(tmp_path / "one.tar.gz", Path("/opt/python/bin/python3.11"))
    with tarfile.open(tmp_path / "one.tar.gz") as archive:
        assert archive.getmember("bin/python").linkname == "/opt/python/bin/python3.11"
        config = archive.extractfile("pyvenv.cfg")
        assert config is not None
        assert b"home = /opt/python/bin\n" in config.read()


@pytest.mark.parametrize(
    ("python", "why"),
    [
        ("python3", "not a full path"),
        ("./bin/python3.11", "not a full path"),
        ("/opt/bin/python3.99", r"the packages are for Python 3\.\d+\. Walferry has to be installed for 3\.99"),
    ],
)
def test_a_python_that_cannot_be_that_of_the_executors_is_refused(small: None, tmp_path: Path, python: str, why: str) -> None:
    with pytest.raises(NotPacked, match=why):
        pack(tmp_path / "env.tar.gz", Path(python))
    assert not list(tmp_path.iterdir())


def test_what_the_library_needs_is_found_with_what_that_needs_but_not_airflow_nor_spark() -> None:
    names = {package.name for package in needed(environment._requirements())}
    assert {"numba", "llvmlite", "kazoo", "hdfs-native", "pyarrow", "pandas", "cffi"} <= names
    assert not {name for name in names if "airflow" in name or "pyspark" in name or name in ("pytest", "mypy")}


def test_a_package_that_is_missing_is_named_with_what_needs_it() -> None:
    with pytest.raises(NotPacked, match="no-such-package, which walferry needs, is not installed"):
        needed([Requirement("no_such.package")])


def test_a_package_brings_nothing_from_outside_of_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "site").mkdir()
    (tmp_path / "site/ours.py").write_text("")
    files = [PackagePath(name) for name in ("ours.py", "x/../../secret", "../secret", str(tmp_path / "secret"))]
    for file in files:
        file.dist = PathDistribution(tmp_path / "site/hostile.dist-info")
    hostile = SimpleNamespace(name="hostile", version="1", files=files)
    monkeypatch.setattr(environment, "needed", lambda requirements: [hostile])
    pack(tmp_path / "env.tar.gz", HERE)
    with tarfile.open(tmp_path / "env.tar.gz") as archive:
        names = {name.rpartition("/")[2] for name in archive.getnames() if "site-packages" in name}
    assert names == {"ours.py", f"ours.{sys.implementation.cache_tag}.pyc"}


def test_a_failure_leaves_the_old_archive_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "env.tar.gz"
    target.write_text("old")
    by_conda = SimpleNamespace(name="click", version="8", files=None)
    monkeypatch.setattr(environment, "needed", lambda requirements: [by_conda])
    with pytest.raises(NotPacked, match="has no list of its files: install it by pip"):
        pack(target, HERE)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
