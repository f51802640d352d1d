"""Starts JVMs that end with their parent, however it ends, and waits for them with a limit. A failure shows their log."""

from __future__ import annotations

import fcntl
import functools
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from embedded.cache import cache_home
from embedded.jars import HBASE_2, JarSet, hbase_classpath, py4j_jar
from embedded.java import find_java, helper_classes, jvm_options, launcher_classes
from embedded.shared_classes import jars_on_class_path, shared_classes

LOG_TAIL_LINES = 40
HOLD = Path(__file__).with_name("hold.py")
# For processes that do little: these options save memory and compilation.
SMALL_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# ZooKeeper's data need not survive a crash of the machine. Without fsync, a write takes a tenth of a millisecond.
ZOOKEEPER_WITHOUT_FSYNC = "-Dzookeeper.forceSync=no"


class ClusterError(RuntimeError):
    """A process of an embedded cluster did not start, or did not do its work. `problem` is the text without the `logs`' ends."""

    def __init__(self, problem: str, logs: str = "") -> None:
        super().__init__(f"{problem}; {logs}" if logs else problem)
        self.problem = problem


@dataclass(frozen=True)
class JavaProcess:
    """One running JVM. Its standard input is a pipe from this process; when that closes, the JVM halts (java/Launcher.java)."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    def kill(self) -> None:
        """Kill (-9) the JVM, and wait until it is gone."""
        self._end(signal.SIGKILL, 30)

    def stop(self, timeout: float = 60) -> None:
        """Shut the JVM down in order by SIGTERM, and kill it if it still runs after `timeout` seconds."""
        try:
            self._end(signal.SIGTERM, timeout)
        except subprocess.TimeoutExpired:
            self.kill()

    def _end(self, how: signal.Signals, timeout: float) -> None:
        if self.alive:
            self.popen.send_signal(how)
            self.popen.wait(timeout)
        if self.popen.stdin is not None:
            self.popen.stdin.close()

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def abort(self) -> str | None:
        """Return the log's line with the reason why an HBase server in this JVM aborted, or None. The JVM may live on."""
        return next((line for line in self.log_text().splitlines() if "***** ABORTING" in line), None)

    def tail(self) -> str:
        """Return the end of the log, for an error message."""
        return "\n".join([f"the end of {self.log}:", *self.log_text().splitlines()[-LOG_TAIL_LINES:]])


_PORTS: Sequence[int] = range(20000, 32000)
_ports_lock = threading.Lock()
_ports_given: set[int] = set()  # locks of one process do not keep each other out
_of_log: dict[Path, JavaProcess] = {}  # the newest process of each log


def start_java(
    name: str,
    main_class: str,
    args: Sequence[str] = (),
    *,
    folder: Path,
    classpath: Sequence[Path] = (),
    heap: str = "512m",
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    jars: JarSet = HBASE_2,
    holding: bool = False,
) -> JavaProcess:
    """Start `main_class` with HBase's `jars`, followed by `classpath`. Its output goes to `<folder>/<name>.log`.

    `heap` is -Xmx ("512m", "3g"), `options` go to the JVM, `environment` is added to ours. The working directory is `folder`.
    A JVM that starts other processes is run by embedded/hold.py if `holding`: then these end with it. Stop it, do not kill it.
    Raises ClusterError if a JVM of this name and folder still runs: they would spoil each other's data.
    """
    helpers = helper_classes([*hbase_classpath(jars), py4j_jar()]) if jars is HBASE_2 else launcher_classes()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.log"
    if (other := _of_log.get(log)) is not None and other.alive:
        raise ClusterError(f"{name}: another {name}, with process id {other.pid}, has its data in {folder}")
    command = [
        *((sys.executable, "-P", str(HOLD)) if holding else ()),
        str(find_java()),
        f"-Xmx{heap}",
        "-XX:+ExitOnOutOfMemoryError",
        *jvm_options(),
        *shared_classes(jars),
        "-Djava.net.preferIPv4Stack=true",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper=warn",
        *options,
        "-cp",
        os.pathsep.join([jars_on_class_path(jars), str(helpers), *map(str, classpath)]),
        *(() if holding else ("walferry.embedded.Launcher",)),
        main_class,
        *args,
    ]
    with log.open("wb") as out:
        # The JVM has its own process group: Ctrl-C in a terminal reaches only the parent, which stops everything in order.
        popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            process_group=None if holding else 0,  # hold.py gets a session of its own
        )
    _of_log[log] = JavaProcess(name, popen, log)
    return _of_log[log]


def wait_until(done: Callable[[], bool], what: str, *, processes: Iterable[JavaProcess], timeout: float) -> None:
    """Wait until `done()`, which errors call `what`. Raises ClusterError with a log's end if a process ends or time is over."""
    processes = list(processes)
    deadline = time.monotonic() + timeout
    while not done():
        for process in processes:
            if not process.alive:
                code = process.popen.returncode
                raise ClusterError(f"{process.name} ended with code {code} before {what}", process.tail())
        if time.monotonic() > deadline:
            tails = "\n".join(process.tail() for process in processes)
            raise ClusterError(f"not within {timeout:.0f} s: {what}", tails)
        time.sleep(0.1)


def free_port() -> int:
    """Return a free local TCP port, below the range from which the system takes ports for outgoing connections.

    No call returns it again, in this process or another of this user, as long as this process lives: a server may bind it late,
    and again after a stop. Raises ClusterError.
    """
    with _ports_lock:
        chance = random.SystemRandom()  # hypothesis gives `random` the same seed in each process
        for port in chance.sample(_PORTS, len(_PORTS)):
            if port not in _ports_given and _is_ours(port):
                _ports_given.add(port)
                return port
    raise ClusterError(f"no free TCP port found between {_PORTS[0]} and {_PORTS[-1]}")


@functools.cache
def _ports_file() -> IO[str]:
    """Return a file whose byte N is locked by the process that was given port N."""
    cache_home().mkdir(parents=True, exist_ok=True)
    return (cache_home() / "ports.lock").open("w")


def _is_ours(port: int) -> bool:
    try:
        fcntl.lockf(_ports_file(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
