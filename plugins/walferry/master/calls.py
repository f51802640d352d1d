"""Calls the live RegionServers for `reconcile`, several servers at a time."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import UNSECURED, Login
from walferry.hbase.names import ServerName
from walferry.hbase.rpc import admin as rpc
from walferry.master.znodes import META_ENCODED_NAME, RegionInTransition

ONLINE_TIMEOUT_SECONDS = 20.0  # a server answers from memory
CALLED_AT_ONCE = 16
_META = b"hbase:meta"
_NOT_FAILURES = (".RegionAlreadyInTransitionException", ".NotServingRegionException")  # the region is closing, or closed already

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ToOpen:
    """A region that a server is asked to open, at its znode's version. hbase:meta named another server at `opened_ms`."""

    info: pb.RegionInfo
    znode: RegionInTransition
    opened_ms: int = 0


def opening_ms(regions: Iterable[ToOpen], now_ms: int) -> int:
    """Return the timestamp for hbase:meta's entry of the server that opens the regions. An older entry would be hidden."""
    return max(now_ms, *(region.opened_ms + 1 for region in regions))


@dataclass(frozen=True)
class CalledServers:
    """Calls RegionServers with a login."""

    login: Login = UNSECURED

    def online(self, servers: Iterable[ServerName]) -> Mapping[ServerName, frozenset[str]]:
        """Return the encoded names of the regions that each server serves. A server that does not answer is left out."""
        return _answers(self._online, sorted(servers))

    def open(self, wanted: Mapping[ServerName, Sequence[ToOpen]]) -> Mapping[ServerName, WalferryError]:
        """Ask each server to open its regions. Returns the failures by server; any other answer proves nothing."""
        return _answers(self._open, list(wanted), wanted.values())

    def _open(self, server: ServerName, regions: Sequence[ToOpen]) -> WalferryError | None:
        now_ms = int(time.time() * 1000)
        # A clock that was once far ahead must not spread in hbase:meta: only regions with such a timestamp get one like it.
        usual = [region for region in regions if region.opened_ms < now_ms]
        ahead = [[region] for region in regions if region.opened_ms >= now_ms]
        for together in (usual, *ahead):
            wanted = [(region.info, region.znode.version) for region in together]
            try:
                if wanted:
                    rpc.open_regions(server, wanted, opening_ms(together, now_ms), login=self.login)
            except WalferryError as error:
                return error
        return None

    def close(self, wanted: Mapping[ServerName, Sequence[RegionInTransition]]) -> Mapping[str, WalferryError]:
        """Ask each server to close its regions. Returns the failures by encoded name; any other answer proves nothing."""
        failed = _answers(self._close, list(wanted), wanted.values()).values()
        return {encoded: error for of_server in failed for encoded, error in of_server.items()}

    def _close(self, server: ServerName, regions: Sequence[RegionInTransition]) -> dict[str, WalferryError]:
        versions = {region.encoded_name: region.version for region in regions}
        try:
            refused = rpc.close_regions(server, versions, login=self.login)
        except WalferryError as error:
            return dict.fromkeys(versions, error)
        return {encoded: error for encoded, error in refused.items() if not error.class_name.endswith(_NOT_FAILURES)}

    def close_copy(self, server: ServerName, encoded_name: str) -> None:
        """Ask a server to close its copy of a region without a change in ZooKeeper. Raises an RpcError."""
        rpc.close_copy(server, encoded_name, login=self.login)

    def _online(self, server: ServerName) -> frozenset[str] | None:
        try:
            regions = rpc.online_regions(server, login=self.login, timeout=ONLINE_TIMEOUT_SECONDS)
        except WalferryError as error:
            log.warning("%s has not said which regions it serves: %s", server, error)
            return None
        return frozenset(map(encoded_name_of, regions))


def _answers(ask: Callable[..., T | None], servers: Sequence[ServerName], *wanted: Iterable[object]) -> dict[ServerName, T]:
    """Ask the servers side by side, each for its part of `wanted`. Returns the answers other than None."""
    with ThreadPoolExecutor(CALLED_AT_ONCE, "regionservers") as pool:
        answers = zip(servers, pool.map(ask, servers, *wanted), strict=True)
        return {server: answer for server, answer in answers if answer is not None}


def encoded_name_of(info: pb.RegionInfo) -> str:
    """Return a region's encoded name: an MD5 of the rest of its name (HRegionInfo.createRegionName, encodeRegionName)."""
    namespace, table = info.table_name.namespace, info.table_name.qualifier  # may be any bytes that a server sends
    if namespace not in (b"", b"default"):
        table = b"%b:%b" % (namespace, table)
    if table == _META and not info.replica_id:
        return META_ENCODED_NAME
    replica = b"_%04X" % info.replica_id if info.replica_id else b""
    name = b"%b,%b,%d%b" % (table, info.start_key, info.region_id, replica)
    return hashlib.md5(name, usedforsecurity=False).hexdigest()
