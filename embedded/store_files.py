"""Reads and writes HFiles with HBase's own code, in a JVM without a cluster. java/StoreFiles.java defines the commands.

with StoreFiles(folder) as hbase:
    hbase.write(path, cells, settings)
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from embedded.hbase import write_site
from embedded.jars import codec_classpath, hbase_classpath, py4j_jar
from embedded.java import find_java, helper_classes, jvm_options

# The ones of HBase's own codecs that need no system libraries.
CODECS = {
    f"hbase.io.compress.{name}.codec": f"org.apache.hadoop.hbase.io.compress.aircompressor.{name.capitalize()}Codec"
    for name in ("lz4", "snappy")
}


class StoreFilesError(RuntimeError):
    """HBase's code threw an exception. Its stack trace is in the log."""


@dataclass(frozen=True)
class Took:
    """The time that the writing of a file took."""

    seconds: float
    cpu_seconds: float


class StoreFiles:
    """One JVM. Its settings and logs lie in `folder`. Cells are bytes as in data blocks: see hbase/hfiles/cells.py."""

    def __init__(self, folder: Path, *, heap: str = "1g") -> None:
        self._folder = folder
        self._heap = heap

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_site(self._folder / "hbase-site.xml", CODECS)  # HBase takes the codecs' classes from the class path only
        jars = [*hbase_classpath(), py4j_jar()]
        path = os.pathsep.join(map(str, [self._folder, helper_classes(jars), *jars, *codec_classpath()]))
        command = [str(find_java()), f"-Xmx{self._heap}", *jvm_options(), "-cp", path]
        command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "walferry.embedded.StoreFiles"]
        with (self._folder / "store-files.log").open("wb") as log:
            self._jvm = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._jvm.stdin is not None
        self._jvm.stdin.close()
        self._jvm.wait(timeout=60)

    def write(self, path: Path, cells: bytes, settings: Mapping[str, str]) -> Took:
        """Write an HFile by StoreFileWriter. java/StoreFiles.java reads the settings."""
        words = [f"{name}={value}" for name, value in settings.items()]
        wall, cpu = self._ask("write", path, self._cells(cells), *words).split()
        return Took(int(wall) / 1e9, int(cpu) / 1e9)

    def cells(self, path: Path) -> bytes:
        """Return all cells of an HFile, read by HBase's scanner."""
        read = self._folder / "read.cells"
        self._ask("cells", path, read)
        return read.read_bytes()

    def print(self, path: Path) -> str:
        """Return the output of `hbase hfile -v -m -k -a -f` for an HFile."""
        text = self._folder / "printed.txt"
        code = self._ask("print", path, text)
        printed = text.read_text(errors="replace")
        if code != "0":
            raise StoreFilesError(f"HFilePrettyPrinter ended with code {code}:\n{printed[-2000:]}")
        return printed

    def ruled_out(self, path: Path, cells: bytes) -> int:
        """Return how many of `cells` have rows and columns that are not in an HFile, according to its bloom filter."""
        return int(self._ask("filter", path, self._cells(cells)))

    def _cells(self, cells: bytes) -> Path:
        path = self._folder / "given.cells"
        path.write_bytes(cells)
        return path

    def _ask(self, *words: object) -> str:
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.write("\t".join(map(str, words)) + "\n")
        self._jvm.stdin.flush()
        answer = self._jvm.stdout.readline().strip()
        if not answer or answer.startswith("failed"):
            log = (self._folder / "store-files.log").read_text(errors="replace")
            raise StoreFilesError(f"{answer or 'the JVM has ended'}\n{log[-4000:]}")
        return answer
