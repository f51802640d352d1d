"""Fetches jars with pyspark's Ivy, so that only Java has to be installed.

Ivy gets settings of our own, which name one repository and one folder. It neither reads nor writes anything else on the machine
(`~/.m2`, `~/.ivy2`, Maven's settings).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from embedded.java import find_java

PROCESSES = 4  # Ivy waits for one answer after the other; several processes side by side take a quarter of the time
PAUSES_SECONDS = (2.0, 5.0, 15.0, 30.0)  # before each further try
PROGRESS_SECONDS = 5.0
STALLED_SECONDS = 90.0  # longer than Ivy waits for one answer; it would wait that long for each of fifty answers
LOST = re.compile("nothing has arrived|Server access error|SERVER ERROR|FAILED|Host .* not found|Please retry|Exception")


class JarsMissingError(RuntimeError):
    """The jars could not be fetched."""


@dataclass(frozen=True)
class Jar:
    """A jar, its digest (SHA-256) and its size in bytes; written as a line of jars.lock."""

    group: str
    name: str
    version: str
    classifier: str  # may be empty
    sha256: str
    size: int

    @classmethod
    def parse(cls, line: str) -> Jar:
        """Parse `group:name:version[:classifier] sha256 size`."""
        coordinate, sha256, size = line.split()
        group, name, version, *classifier = coordinate.split(":")
        return cls(group, name, version, ":".join(classifier), sha256, int(size))

    @property
    def coordinate(self) -> str:
        return ":".join(part for part in (self.group, self.name, self.version, self.classifier) if part)

    @property
    def file_name(self) -> str:
        """The jar's file name. It contains the group, because jars of two groups may have one name."""
        return f"{self.group}_{'-'.join(part for part in (self.name, self.version, self.classifier) if part)}.jar"

    def is_at(self, path: Path) -> bool:
        """Return whether `path` is this jar, and complete."""
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        return hashlib.sha256(path.read_bytes()).hexdigest() == self.sha256


def fetch(title: str, jars: Sequence[Jar], folder: Path, kept: Path, pauses: Sequence[float] = PAUSES_SECONDS) -> None:
    """Put `jars` into `folder`, with further tries after a lost connection. JarsMissingError names missing jars and the reason.

    `kept` holds the arrived jars until all have come. Another try, or a run after this one was killed, fetches the rest.
    """
    kept.mkdir(parents=True, exist_ok=True)
    missing = _missing(jars, kept)
    for pause in (*pauses, None):
        if not missing:
            break
        output = _try(title, jars, missing, kept)
        missing = _missing(missing, kept)
        if missing:
            lost = _look_why(title, missing, output)
            if pause is None:
                raise JarsMissingError(
                    f"{title}: {len(missing)} of {len(jars)} jars could not be fetched from {_repository_named()}, check the "
                    f"network and try again (what has arrived is kept). The first is {missing[0].coordinate}:\n{lost}"
                )
            _say(f"{title}: {len(missing)} jars have not arrived whole; trying again in {pause:g} s")
            time.sleep(pause)
    for jar in jars:
        shutil.move(kept / jar.file_name, folder / jar.file_name)
    shutil.rmtree(kept)


def run_ivy(module: str, work: Path, *, log: Path, poms: bool, arguments: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start Ivy on `module`, an ivy.xml. Artifacts go to `work`, output to `log`. With `poms`, it reads jars' dependencies."""
    log.with_suffix(".settings.xml").write_text(_settings(work, poms=poms), encoding="utf-8")
    log.with_suffix(".ivy.xml").write_text(module, encoding="utf-8")
    java_options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command = [str(find_java()), *java_options, "-jar", str(_ivy_jar()), "-settings", str(log.with_suffix(".settings.xml"))]
    command += ["-ivy", str(log.with_suffix(".ivy.xml")), "-confs", "default", *arguments]
    with log.open("wb") as output:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)


def _missing(jars: Sequence[Jar], kept: Path) -> list[Jar]:
    """Return the missing jars. Removes files that differ from jars.lock: a proxy may have sent a page of its own."""
    missing = [jar for jar in jars if not jar.is_at(kept / jar.file_name)]
    for jar in missing:
        (kept / jar.file_name).unlink(missing_ok=True)
    return missing


def _try(title: str, jars: Sequence[Jar], missing: Sequence[Jar], kept: Path) -> str:
    """Fetch missing jars, as far as possible. Returns Ivy's output."""
    logs = [kept / f"ivy-{n}.log" for n in range(min(PROCESSES, len(missing)))]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for n, log in enumerate(logs):
            # The largest jars may lie anywhere in the list, so deal the jars out in turns.
            processes.append(run_ivy(_module(f"part-{n}", missing[n :: len(logs)]), kept, log=log, poms=False))
        stalled = _stalls(processes, title, jars, kept)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    outputs = [log.read_text(encoding="utf-8", errors="replace") for log in logs]
    return "\n".join([f"nothing has arrived for {STALLED_SECONDS:g} s"] * stalled + outputs)


def _stalls(processes: Sequence[subprocess.Popen[bytes]], title: str, jars: Sequence[Jar], kept: Path) -> bool:
    """Wait until all processes end or no bytes arrive any more. Returns whether no bytes arrive."""
    arrived, arrived_at = -1, time.monotonic()
    said = arrived_at
    while any(process.poll() is None for process in processes):
        time.sleep(0.1)
        now = time.monotonic()
        if now - said >= PROGRESS_SECONDS:
            _say(f"{title}: {_progress(jars, kept)}")
            said = now
        if (size := _arrived_bytes(kept)) != arrived:
            arrived, arrived_at = size, now
        if now - arrived_at >= STALLED_SECONDS:
            return True
    _say(f"{title}: {_progress(jars, kept)}")
    return False


def _arrived_bytes(kept: Path) -> int:
    """Return how many bytes of all jars have arrived, including the parts that Ivy is writing."""
    total = 0
    for path in kept.glob("*.jar*"):
        with contextlib.suppress(FileNotFoundError):  # a part that is now complete has another name
            total += path.stat().st_size
    return total


def _progress(jars: Sequence[Jar], kept: Path) -> str:
    there = [jar for jar in jars if (kept / jar.file_name).is_file()]
    sizes = [sum(jar.size for jar in some) / 1e6 for some in (there, jars)]
    return f"{len(there)} of {len(jars)} jars, {sizes[0]:.0f} of {sizes[1]:.0f} MB"


def _look_why(title: str, missing: Sequence[Jar], output: str) -> str:
    """Return Ivy's connection errors, or the wrong jars. Raises JarsMissingError if the repository lacks jars."""
    absent = [jar for jar in missing if f":: {jar.group}#{jar.name};{jar.version}: not found" in output]
    lost = [line.strip() for line in output.splitlines() if LOST.search(line)]
    if absent and not lost:
        raise JarsMissingError(
            f"{title}: {_repository_named()} does not have {', '.join(jar.coordinate for jar in absent)}: "
            "if that is a mirror, name another one in DEFAULT_ARTIFACT_REPOSITORY"
        )
    if not lost:  # Ivy has fetched the jars, but they differ from jars.lock
        return "what arrived is not what jars.lock says: " + ", ".join(jar.coordinate for jar in missing[:5])
    return "\n".join(lost[:5])


def _module(name: str, jars: Sequence[Jar]) -> str:
    """Return an ivy.xml that asks for these jars and nothing else."""
    lines = []
    for jar in jars:
        classifier = f" m:classifier={quoteattr(jar.classifier)}" if jar.classifier else ""
        lines.append(
            f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.name)} rev={quoteattr(jar.version)} transitive='false' "
            f"conf='default'><artifact name={quoteattr(jar.name)} type='jar' ext='jar'{classifier}/></dependency>"
        )
    return module_xml(name, lines)


def module_xml(name: str, dependencies: Sequence[str]) -> str:
    """Return an ivy.xml with these elements as its dependencies."""
    return f"""\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="walferry" module={quoteattr(name)}/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{"".join(dependencies)}</dependencies>
</ivy-module>
"""


def _settings(work: Path, *, poms: bool) -> str:
    """Return an ivysettings.xml: one repository, one folder. Without POMs, jars.lock alone names the jars and their digests."""
    root = f"root={quoteattr(repository)}" if (repository := os.environ.get("DEFAULT_ARTIFACT_REPOSITORY")) else ""
    content = 'descriptor="required"' if poms else 'usepoms="false" useMavenMetadata="false" checksums=""'
    return f"""\
<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir={quoteattr(str(work))} artifactPattern="[organisation]_[artifact]-[revision](-[classifier]).[ext]"/>
  <timeout-constraints>
    <timeout-constraint name="bounded" connectionTimeout="20000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers><ibiblio name="central" m2compatible="true" timeoutConstraint="bounded" {root} {content}/></resolvers>
</ivysettings>
"""


def _repository_named() -> str:
    return os.environ.get("DEFAULT_ARTIFACT_REPOSITORY") or "Maven Central"


def _ivy_jar() -> Path:
    import pyspark

    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    if not jars:
        raise JarsMissingError(f"no Ivy among the jars of pyspark in {Path(pyspark.__file__).parent / 'jars'}: run `make venv`")
    return jars[0]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
