"""Packs what executors need beside Spark into one archive (`walferry pack`), for machines that have nothing of it.

    bin/python                          a link to Python, which the executors' machines have
    pyvenv.cfg                          makes that Python look for packages beside it
    lib/pythonX.Y/site-packages/...     the packages that the library needs, as they are installed here, with compiled modules

Spark unpacks it into a folder of each executor: `spark.archives=….tar.gz#environment`. It lacks the library, which travels with
each job (archive). Other tools pack a whole environment, here with Airflow, or fetch the packages again.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import walferry
from walferry.base.errors import WalferryError

NAME = "environment"  # of the folder into which executors unpack the archive
PYTHON = f"./{NAME}/bin/python"  # what they run
OF_SPARK = frozenset({"pyspark", "pyspark-client"})  # Spark brings them
_OPTIONAL = {"lake": "pyiceberg", "kafka": "confluent-kafka"}  # extras, and the package by which one is installed
_PACKAGES = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
_LEVEL = 6  # of gzip: half of its time for 2 % more bytes than the best one
_NO_TIME = 0  # the same packages give the same bytes


class NotPacked(WalferryError):
    """The environment could not be packed."""


def pack(target: Path, python: Path, progress: Callable[[str, int, int], None] = lambda name, done, all_: None) -> list[str]:
    """Write the archive, and return the packages in it as `name==version`. `python` is where executors have this Python.

    `progress` gets what was packed, such as a package's name, and how many are done of how many. Raises NotPacked.
    """
    _check(python)
    packages = needed(_requirements())
    handle, unfinished = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".unfinished")
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            os.fdopen(handle, "wb") as file,
            gzip.GzipFile("", "wb", _LEVEL, file, _NO_TIME) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            _add_python(archive, python)
            for done, package in enumerate(packages, start=1):
                for inside, path in _files(package):
                    _add(archive, f"{_PACKAGES}/{inside}", path)
                progress(package.name, done, len(packages) + 1)
            for inside, path in _compiled(chain.from_iterable(map(_files, packages)), Path(folder)):
                _add(archive, f"{_PACKAGES}/{inside}", path)
            progress("compiled modules", len(packages) + 1, len(packages) + 1)
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, target)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
    return [f"{package.name}=={package.version}" for package in packages]


def needed(requirements: Sequence[Requirement]) -> list[Distribution]:
    """Return the installed packages that fulfil the requirements, with all that these require in turn. Raises NotPacked."""
    found: dict[tuple[str, str], Distribution] = {}
    left = [(requirement, "walferry") for requirement in requirements]
    while left:
        requirement, by = left.pop()
        name = canonicalize_name(requirement.name)
        for extra in sorted({"", *requirement.extras}):
            if name in OF_SPARK or (name, extra) in found:
                continue
            try:
                package = distribution(name)
            except PackageNotFoundError:
                raise NotPacked(
                    f"package {name}, which {by} needs, is not installed: install it by pip, and pack again"
                ) from None
            found[name, extra] = package
            wanted = map(Requirement, package.requires or ())
            left += [(each, name) for each in wanted if each.marker is None or each.marker.evaluate({"extra": extra})]
    return sorted({name: package for (name, _), package in found.items()}.values(), key=lambda package: package.name.lower())


def _requirements() -> list[Requirement]:
    """Return what the library needs in a Spark job, as pip has it, or as its source says; for lakes and Kafka only if that is
    installed.
    """
    extras = ["spark", *(extra for extra, package in _OPTIONAL.items() if any(True for _ in distributions(name=package)))]
    try:
        texts = distribution("walferry").requires or []
    except PackageNotFoundError:
        project = tomllib.loads((Path(walferry.__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        texts = project["dependencies"] + [each for extra in extras for each in project["optional-dependencies"][extra]]
    found = map(Requirement, texts)
    return [each for each in found if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras)]


def _files(package: Distribution) -> Iterator[tuple[str, Path]]:
    """List a package's files, by their paths below its folder of packages. Raises NotPacked."""
    if package.files is None:
        raise NotPacked(f"package {package.name} has no list of its files: install it by pip, and pack again")
    for file in sorted(package.files):
        inside, path = file.as_posix(), Path(str(file.locate()))
        if inside.startswith("/") or ".." in file.parts or file.suffix == ".pyc":  # commands, and what Python makes itself
            continue
        if not path.is_file():
            raise NotPacked(f"file {path} of package {package.name} is missing: install the package again, and pack again")
        yield inside, path


def _compiled(files: Iterable[tuple[str, Path]], folder: Path) -> Iterator[tuple[str, Path]]:
    """Compile modules in a folder, and list what Python looks for beside them. What cannot be compiled is left out.

    Times do not survive unpacking, so Python compares a hash of the module: what was compiled from another one is never run.
    A process of its own gives the same bytes each time. No job imports the packages' tests, which are half of all modules.
    """
    for inside, path in files:
        link = folder / inside
        if link.suffix == ".py" and "tests" not in Path(inside).parts and not link.is_symlink():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    hashed = ("--invalidation-mode", "checked-hash", "-o", "0", "-s", str(folder))  # without the folder's name in the code
    subprocess.run([sys.executable, "-I", "-m", "compileall", "-q", "-q", *hashed, str(folder)], check=False)
    for compiled in sorted(folder.rglob("*.pyc")):
        yield compiled.relative_to(folder).as_posix(), compiled


def _check(python: Path) -> None:
    """Raise NotPacked for a path that cannot be that of this Python on the executors' machines."""
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if not python.is_absolute():
        raise NotPacked(f"{python} is not a full path: give the path of Python {here} on the executors' machines")
    if (named := re.fullmatch(r"python(\d+\.\d+)", python.name)) and named[1] != here:
        raise NotPacked(
            f"{python}: the packages are for Python {here}. Walferry has to be installed for {named[1]}, to pack for {named[1]}"
        )


def _add_python(archive: tarfile.TarFile, python: Path) -> None:
    config = f"home = {python.parent}\ninclude-system-site-packages = false\nversion = {sys.version.split()[0]}\n"
    info = _info("pyvenv.cfg")
    info.size = len(config.encode())
    archive.addfile(info, io.BytesIO(config.encode()))
    for name in ("python", "python3", f"python3.{sys.version_info[1]}"):
        link = _info(f"bin/{name}")
        link.type, link.linkname = tarfile.SYMTYPE, str(python)
        archive.addfile(link)


def _add(archive: tarfile.TarFile, inside: str, path: Path) -> None:
    info = _info(inside)
    stat = path.stat()
    info.size, info.mode = stat.st_size, 0o755 if stat.st_mode & 0o100 else 0o644
    with path.open("rb") as file:
        archive.addfile(info, file)


def _info(inside: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(inside)
    info.mtime, info.mode = _NO_TIME, 0o644
    return info
