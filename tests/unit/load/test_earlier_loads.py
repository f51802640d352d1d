"""The part of a WAL that was loaded before the WAL is shipped."""

from __future__ import annotations

from walferry.load.earlier_loads import NOTHING_LOADED, LoadedBefore
from walferry.load.records import Load

GROUP = "rs-1%2C16020%2C1700000000001"


def test_families_of_several_loads_add_up() -> None:
    loads = [
        Load("a", {GROUP: f"{GROUP}.3"}, True, {"t": ("f",)}),
        Load("b", {GROUP: f"{GROUP}.2"}, True, {"t": ("g",), "ns:u": ("f",)}),
    ]
    before = LoadedBefore(loads)
    assert [before.families(f"{GROUP}.{number}") for number in (2, 3, 4)] == [
        {b"t": {b"f", b"g"}, b"ns:u": {b"f"}}, {b"t": {b"f"}}, {}
    ]  # fmt: skip
    assert NOTHING_LOADED.families(f"{GROUP}.1") == {}
