"""Makes spark-submit start quickly where the driver and its executors are processes of this machine (a `local` master).

Spark's processes import PySpark from pyspark.zip, which contains no compiled code. Each driver and each daemon of workers would
compile PySpark again, one after the other, which takes over a second each. pip's PySpark lies compiled next to that zip. So the
job gets a Spark home of links to pip's PySpark, in which a folder with the compiled package takes the place of pyspark.zip.

The Spark provider asks for pyspark-client, which pip installs into the same folder as pyspark. If it has another version, the
folder is a mixture that Spark's JVM does not understand. Spark then starts as usual: the zip is pyspark's alone.

The JVM only waits for Python, so compiling its code well would take longer than the JVM lives.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

SHORT_LIVED = "-XX:TieredStopAtLevel=1"  # a garbage collector set here might contradict spark-defaults.conf
_ZIPS = Path("python", "lib")


def quick_start(cache: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that pip's spark-submit needs in addition to `environment`, whose own choices stay."""
    variables = {"SPARK_SUBMIT_OPTS": SHORT_LIVED, "SPARK_LAUNCHER_OPTS": SHORT_LIVED}
    spec = find_spec("pyspark")
    if spec is not None and spec.origin is not None and (home := linked_home(cache, Path(spec.origin).parent)):
        variables["SPARK_HOME"] = str(home)
    return {name: value for name, value in variables.items() if name not in environment}


def linked_home(cache: Path, package: Path) -> Path | None:
    """Return the home of links to pip's PySpark, making it if missing.

    Returns None if `package` is not pip's, has Python code of another version than Spark's jars, or cannot be linked.
    """
    if not (package / "bin" / "spark-submit").is_file() or not (package / _ZIPS).is_dir() or not _of_one_version(package):
        return None
    names = sorted(entry.name for folder in (package, package / _ZIPS) for entry in folder.iterdir())
    home = cache / f"spark-{hashlib.sha256(repr((str(package), names)).encode()).hexdigest()[:16]}"
    with contextlib.suppress(OSError):
        if not home.is_dir():
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            _link(package, home)
    return home if home.is_dir() else None


def _of_one_version(package: Path) -> bool:
    """Return whether the Python code has the version of the jars."""
    with contextlib.suppress(OSError):
        version = re.search(r"""^__version__.*=\s*['"]([\w.]+)['"]""", (package / "version.py").read_text("utf-8"), re.MULTILINE)
        return version is not None and any((package / "jars").glob(f"spark-core_*-{version[1]}.jar"))
    return False


def _link(package: Path, home: Path) -> None:
    """Make the links. Several processes may do this at once."""
    unfinished = Path(tempfile.mkdtemp(prefix=f"{home.name}-", dir=home.parent))
    try:
        for name in ("bin", "conf", "jars", "sbin"):  # conf may come later
            (unfinished / name).symlink_to(package / name)
        zips = unfinished / _ZIPS
        zips.mkdir(parents=True)
        for file in (package / _ZIPS).iterdir():
            if file.name != "pyspark.zip":
                (zips / file.name).symlink_to(file)
        (zips / "pyspark.zip").mkdir()
        (zips / "pyspark.zip" / package.name).symlink_to(package)
        unfinished.rename(home)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
