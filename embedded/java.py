"""Finds Java, compiles the helper classes under `java/`, and returns the options that every HBase JVM needs."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from embedded.cache import cache_home, filled_once

OLDEST_JAVA = 17
SOURCES = Path(__file__).parent / "java"
JVM_OPENED = (
    "java.lang",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "sun.nio.ch",
    "jdk.internal.ref",
)
JVM_EXPORTED = ("java.base/jdk.internal.misc", "java.security.jgss/sun.security.krb5")


class JavaMissingError(RuntimeError):
    """Java is missing, or cannot build or run HBase's helpers."""


@functools.cache
def find_java() -> Path:
    """Return the `java` of JAVA_HOME or of PATH. Raises JavaMissingError if it is missing or older than 17."""
    java = _find_tool("java")
    if java is None:
        raise JavaMissingError(f"Java is missing: install a JDK {OLDEST_JAVA} or newer, or point JAVA_HOME at one")
    found = re.search(r'version "(\d+)', _version_text(java))
    if found is None or int(found.group(1)) < OLDEST_JAVA:
        version = found.group(1) if found else "unknown"
        raise JavaMissingError(
            f"Java {OLDEST_JAVA} or newer is needed, but {java} is version {version}: set JAVA_HOME to a newer one"
        )
    return java


def java_version() -> str:
    """Return the version text that `find_java()` prints. It differs between two builds of one release."""
    return _version_text(find_java())


def find_javac() -> Path:
    """Return the `javac` next to `find_java()`. Raises JavaMissingError if only a runtime is installed."""
    javac = _find_tool("javac")
    if javac is None:
        raise JavaMissingError(f"javac is missing: {find_java()} is a runtime only; install the JDK or point JAVA_HOME at one")
    return javac


def jvm_options() -> list[str]:
    """Return options that open the parts of the JDK that HBase and Hadoop use by reflection."""
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in JVM_OPENED]
    exported = [f"--add-exports={package}=ALL-UNNAMED" for package in JVM_EXPORTED]
    return opened + exported


def helper_classes(classpath: list[Path]) -> Path:
    """Return the folder with the compiled classes of `java/`. Compiles them at the first use after a source changed."""
    return _compiled(sorted(SOURCES.glob("*.java")), classpath)


def launcher_classes() -> Path:
    """Return the folder with only the compiled Launcher, which needs only Java, for JVMs with another release of HBase."""
    return _compiled([SOURCES / "Launcher.java"], [])


def _compiled(sources: list[Path], classpath: list[Path]) -> Path:
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    for jar in classpath:
        digest.update(str(jar).encode())

    def compile_into(folder: Path) -> None:
        print(f"compiling {len(sources)} Java helpers (once)", file=sys.stderr, flush=True)
        command = [str(find_javac()), "-nowarn", "-proc:none", "-d", str(folder)]
        if classpath:
            command += ["-cp", os.pathsep.join(map(str, classpath))]
        done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise JavaMissingError(f"javac failed on {SOURCES}:\n{done.stdout}{done.stderr}")

    return filled_once(cache_home() / f"classes-{digest.hexdigest()[:16]}", compile_into)


def _version_text(java: Path) -> str:
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    return shown.stderr + shown.stdout


def _find_tool(name: str) -> Path | None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / name).is_file():
        return Path(home) / "bin" / name
    found = shutil.which(name)
    return Path(found) if found else None
