"""The folder of one load is noted before it is used, deleted after it, and forgotten only once it is deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from walferry.base.errors import WalferryError
from walferry.hbase.rpc.errors import RpcError
from walferry.hbase.tables.regions import Region
from walferry.load import cleanup
from walferry.load.records import Folder

REGION = Region(b"t,,1.0123456789abcdef0123456789abcdef.", b"", b"", None)


class Slave:
    login: Any = None

    def place(self, table: str) -> Any:
        return self

    def connection(self, target: Region) -> str:
        return "a connection"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is asked for, in order."""
    made: list[Any] = []

    def new_folder(server: str, table: str, region: bytes, root: str, login: Any, note: Callable[[str], str]) -> tuple[str, str]:
        made.append("prepare")
        return "token", note("token")

    def note_folder(zk: Any, record: str, folder: Folder) -> str:
        made.append(folder)
        return f"{record}/note"

    monkeypatch.setattr(cleanup, "new_folder", new_folder)
    monkeypatch.setattr(cleanup, "note_folder", note_folder)
    monkeypatch.setattr(cleanup, "forget", lambda zk, note: made.append(f"forget {note}"))
    monkeypatch.setattr(cleanup.bulk_load, "cleanup", lambda server, region, token: made.append(f"delete {token}"))
    return made


def load(*, surely: bool = False, error: Exception | None = None) -> None:
    nothing: Any = None
    source: Any = type("Source", (), {"hbase_root": "file:/x"})
    slave: Any = Slave()
    with cleanup.noted_folder(nothing, "record", slave, "t", REGION, source, surely=surely) as made:
        assert made == ("a connection", "token", "record/note")
        if error is not None:
            raise error


NOTED = ["prepare", Folder("token", "t", REGION.name.hex())]


@pytest.mark.parametrize("error", [None, WalferryError("no"), KeyError("x")])
def test_a_folder_is_deleted_and_forgotten_however_the_load_ends(calls: list[Any], error: Exception | None) -> None:
    if error is None:
        load()
    else:
        with pytest.raises(type(error)) as raised:
            load(error=error)
        assert raised.value is error
    assert calls == [*NOTED, "delete token", "forget record/note"]


@pytest.mark.parametrize("surely", [False, True])
def test_the_note_of_a_folder_that_is_not_deleted_stays(calls: list[Any], surely: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RpcError("the server is away")

    monkeypatch.setattr(cleanup.bulk_load, "cleanup", fails)
    if surely:
        with pytest.raises(RpcError, match="the server is away"):
            load(surely=True)
    else:
        load()
    assert calls == NOTED
