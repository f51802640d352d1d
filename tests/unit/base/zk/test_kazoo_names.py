"""The names of kazoo that are not public, and that we stand on: they are these, and are as we know them.

kazoo offers no public way to bound an answer, to notice a pause in the middle of a call, or to log in before the first request.
A new version of it that has moved one of these names fails here, and not in a cluster.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.connection import ConnectionHandler

ZK = Path(__file__).resolve().parents[4] / "plugins" / "walferry" / "base" / "zk"
CONNECTION = {
    "_connect": "(self, host, hostip, port)",
    "_submit": "(self, request, timeout, xid=None)",
    "_read_header": "(self, timeout)",
    "_authenticate_with_sasl": "(self, host, timeout)",
    "_write": "(self, msg, timeout)",
    "_read": "(self, length, timeout)",
    "_read_socket": "(self, read_timeout)",
}
CLIENT = {"_session_callback": "(self, state)"}
CLIENT_FIELDS = {"_connection"}


def private_names(kind: type) -> set[str]:
    """The methods and fields of a class that are not public."""
    methods = {name for name in dir(kind) if name.startswith("_") and not name.startswith("__")}
    return methods | set(re.findall(r"self\.(_[a-z]\w*) = ", inspect.getsource(kind)))


def used() -> set[str]:
    """Return kazoo's private names that the modules of base/zk use."""
    theirs = private_names(ConnectionHandler) | private_names(KazooClient)
    found = set()
    for path in ZK.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in theirs:
                ours = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                found |= set() if ours else {node.attr}
    return found


def test_no_other_private_names_of_kazoo_are_used() -> None:
    assert used() == {*CONNECTION, *CLIENT, *CLIENT_FIELDS}


@pytest.mark.parametrize(
    ("kind", "name", "signature"),
    [
        *((ConnectionHandler, name, signature) for name, signature in CONNECTION.items()),
        *((KazooClient, name, signature) for name, signature in CLIENT.items()),
    ],
)
def test_the_private_methods_are_as_we_know_them(kind: type, name: str, signature: str) -> None:
    assert str(inspect.signature(getattr(kind, name))) == signature


def test_a_client_has_the_private_fields() -> None:
    client = KazooClient()
    assert all(hasattr(client, name) for name in CLIENT_FIELDS)
    assert isinstance(client._connection, ConnectionHandler)
