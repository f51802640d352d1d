"""Answers the calls of HBase 1's clients to the master, as far as enabling and disabling tables needs them: MasterService
(Master.proto).

    IsMasterRunning    a client asks this before its first call
    EnableTable        writes ENABLING, DisableTable writes DISABLING; the passes do the rest (walferry.master.tables)

An answer names no procedure. So the client waits until ZooKeeper shows the state that it has asked for, and this may be another
master's work.

Nobody's rights are checked, and no client proves its name. So these calls are refused if the cluster keeps rights in hbase:acl.

Source: HBase's MasterRpcServices, EnableTableProcedure, DisableTableProcedure, HBaseAdmin.ProcedureFuture (branch-1.4).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from google.protobuf.message import Message
from kazoo.client import KazooClient

from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import UNSECURED, Login
from walferry.base.texts import one_line
from walferry.base.zk.client import has_znode
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import TABLE, table_text
from walferry.hbase.rpc.server import ANY, Caller, Method, Services
from walferry.hbase.rpc.server_codec import CallRefused, JavaException
from walferry.master.catalog import read_catalog
from walferry.master.errors import WrongTableState
from walferry.master.master_calls import of_master
from walferry.master.tables import disable, enable, table_of

SERVICE = "MasterService"
RIGHTS_TABLE = "hbase:acl"  # exists if the AccessController does
MAX_NONCES = 1000  # of changes that were made, by which a client's second try of a call is recognized
MAX_SHOWN_CHARS = 200
KNOWN_SECONDS = 10.0  # a caller cannot have hbase:meta scanned more often
SYSTEM = "hbase"  # the namespace of HBase's own tables

Change = Callable[[KazooClient, ZNodes, FencedLock, str], None]

log = logging.getLogger(__name__)


class ClientCalls:
    """The answers of the holder of the master's role. `changed` is set after each change, to begin a pass.

    `check` raises a WalferryError while, or once, clients must not be answered.
    """

    def __init__(
        self,
        zk: KazooClient,
        nodes: ZNodes,
        lock: FencedLock,
        check: Callable[[], None],
        changed: threading.Event,
        login: Login = UNSECURED,
    ) -> None:
        self._zk = zk
        self._nodes = nodes
        self._role = lock
        self._check = check
        self._changed = changed
        self._login = login
        self._one = threading.Lock()  # one change at a time
        self._tables: tuple[float, frozenset[str]] = (0.0, frozenset())  # the tables in hbase:meta, and until when they count
        self._made: dict[tuple[int, int], None] = {}  # the nonces of changes, the oldest first

    def services(self) -> Services:
        """Return the services for an RpcServer."""
        methods = {
            "IsMasterRunning": Method(pb.IsMasterRunningRequest, _running),
            "EnableTable": Method(
                pb.EnableTableRequest, partial(self._answer, enable, pb.EnableTableResponse(), JavaException.TABLE_NOT_DISABLED)
            ),
            "DisableTable": Method(
                pb.DisableTableRequest, partial(self._answer, disable, pb.DisableTableResponse(), JavaException.TABLE_NOT_ENABLED)
            ),
        }
        return {SERVICE: of_master({**methods, ANY: Method(pb.IsMasterRunningRequest, _cannot)}, self._check)}

    def _answer(self, change: Change, answer: Message, wrong_state: JavaException, request: Any, caller: Caller) -> Message:
        nonce = (request.nonce_group, request.nonce)
        with self._one:
            if not request.nonce or nonce not in self._made:
                table = self._table(request.table_name)
                try:
                    change(self._zk, self._nodes, self._role, table)
                except WrongTableState as error:
                    raise CallRefused(wrong_state, str(error), do_not_retry=True) from error
                except WalferryError as error:
                    raise CallRefused(JavaException.IO, str(error)) from error
                log.info("table %s: %s was asked for from %s", table, change.__name__, caller.host)
                self._made[nonce] = None
                while len(self._made) > MAX_NONCES:
                    del self._made[next(iter(self._made))]
        self._changed.set()
        return answer

    def _table(self, name: pb.TableName) -> str:
        """Return the name of a table that exists, and that clients may change. Raises CallRefused."""
        table = table_text(name, "replace")
        shown = one_line(repr(table), MAX_SHOWN_CHARS)
        if (named := TABLE.fullmatch(table)) is None:
            raise CallRefused(JavaException.DO_NOT_RETRY, f"{shown} is not the name of a table", do_not_retry=True)
        if named["namespace"] == SYSTEM:
            raise CallRefused(JavaException.DO_NOT_RETRY, f"{table} is one of HBase's own, and stays enabled", do_not_retry=True)
        try:
            tables = self._known()
            rights = RIGHTS_TABLE in tables or has_znode(self._zk, self._nodes.rights)
        except CallRefused:
            raise
        except WalferryError as error:
            raise CallRefused(JavaException.IO, str(error)) from error
        if rights:
            raise CallRefused(
                JavaException.ACCESS_DENIED,
                f"this cluster keeps rights in {RIGHTS_TABLE}, which Walferry as the master does not check: start an HMaster for "
                "this",
                do_not_retry=True,
            )
        if table not in tables:
            raise CallRefused(JavaException.TABLE_NOT_FOUND, f"there is no table {shown}", do_not_retry=True)
        return table

    def _known(self) -> frozenset[str]:
        """Return the tables; none is created while there is no HMaster. Raises CallRefused, and the errors of `read_catalog`."""
        until, tables = self._tables
        if time.monotonic() >= until:
            found = read_catalog(self._zk, self._nodes, login=self._login)
            if not found.complete:
                raise CallRefused(JavaException.IO, "which tables there are is not known: hbase:meta cannot be read now")
            tables = frozenset(table_of(known.info) for known in found.regions.values())
            self._tables = time.monotonic() + KNOWN_SECONDS, tables
        return tables


def _running(request: Message, caller: Caller) -> Message:
    return pb.IsMasterRunningResponse(is_master_running=True)


def _cannot(request: Message, caller: Caller) -> Message:
    raise CallRefused(
        JavaException.UNSUPPORTED,
        "a run of Walferry acts as the cluster's master, and can only enable and disable tables: start an HMaster for all else",
        do_not_retry=True,
    )
