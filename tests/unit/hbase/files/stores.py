"""WAL roots for tests, on local files and through fsspec."""

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from walferry.hbase.files.store import WalStore
from walferry.hbase.names import parse_wal_name

SERVER = "rs-1.example.org,16020,1700000000001"
WAL = parse_wal_name("rs-1.example.org%2C16020%2C1700000000001.1700000000123")
BYTES = bytes(range(256)) * 64


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WalStore]:
    """A WAL root on local files, and one on a file system that only fsspec knows."""
    if request.param == "file":
        yield WalStore(f"file://{tmp_path}/hbase/")
    else:
        yield WalStore("memory://hbase")
        memory = fsspec.filesystem("memory")
        memory.store.clear()  # paths with "::" are none to its rm
        memory.pseudo_dirs[:] = [""]


def put(store: WalStore, folder: str, data: bytes = BYTES) -> str:
    url = f"{store.root}/{folder}/{WAL.text}"
    with fsspec.open(url, "wb", auto_mkdir=True) as file:
        file.write(data)
    return url
