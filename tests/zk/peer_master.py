"""HBase 2's handling of peers: a Master that changes them, and a RegionServer that queues its WALs for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from tests.sessions import session_of
from tests.unit.hbase.wal.encoder import encode_wal
from tests.zk.hbase_znodes import HBaseZNodes, prefixed, wal
from tests.zk.one_cell import edits_of_one_cell
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.rpc.server import Caller, Method, RpcServer
from walferry.hbase.rpc.server_codec import CallRefused, JavaException
from walferry.hbase.values import PBUF, decode_peer
from walferry.replication.peers.reading import ENABLED
from walferry.replication.source.peers import read_peer


class PeerMaster:
    """Changes the peers in `hbase`. Calls `before` and `after` at each change, with its name and the peer; they may refuse.

    `orders` are the changes that were carried out. A WAL is closed as soon as the next one begins. Each WAL has one entry.
    """

    def __init__(self, hbase: HBaseZNodes, wals: Path) -> None:
        self.hbase = hbase
        self.orders: list[str] = []
        self.before: Callable[[str, str], None] = lambda order, peer_id: None
        self.after: Callable[[str, str], None] = lambda order, peer_id: None
        self._wals = wals
        self._number = 1000
        self.server = ""

    @property
    def open_wal(self) -> str:
        return wal(self._number, self.server)

    def roll(self) -> None:
        """Roll as preLogRoll does: the new WAL is queued for each peer first."""
        closed = self.open_wal
        self._number += 1
        for peer_id in self.hbase.children(self.hbase.nodes.peers):
            self.hbase.add_wal(self.server, peer_id, self.open_wal)
        (self._wals / closed).write_bytes(encode_wal(edits_of_one_cell([self._number])))

    def state_of(self, peer_id: str) -> str | None:
        """ENABLED or DISABLED; None if there is no such peer."""
        if not self.hbase.zk.exists(self.hbase.nodes.peer(peer_id)):
            return None
        return read_peer(session_of(self.hbase.zk, self.hbase), peer_id).state

    def queued(self, peer_id: str) -> list[str]:
        return sorted(self.hbase.children(self.hbase.nodes.queue(self.server, peer_id)))

    def _list(self, request: pb.ListReplicationPeersRequest, caller: Caller) -> Message:
        found = []
        for peer_id in self.hbase.children(self.hbase.nodes.peers):
            state = pb.ReplicationState(state=pb.ReplicationState.State.Value(str(self.state_of(peer_id))))
            found.append(pb.ReplicationPeerDescription(id=peer_id, state=state, config=self._config(peer_id)))
        return pb.ListReplicationPeersResponse(peer_desc=found)

    def _get(self, request: pb.GetReplicationPeerConfigRequest, caller: Caller) -> Message:
        return pb.GetReplicationPeerConfigResponse(peer_id=request.peer_id, peer_config=self._config(request.peer_id))

    def _add(self, request: pb.AddReplicationPeerRequest, caller: Caller) -> Message:
        state = pb.ReplicationState.State.Name(request.peer_state.state)
        with self._order(f"add {state}", request.peer_id):
            self.hbase.add_peer(request.peer_id, state)
            self._put(request.peer_id, request.peer_config)
            self.hbase.add_wal(self.server, request.peer_id, self.open_wal)
        return pb.AddReplicationPeerResponse()

    def _update(self, request: pb.UpdateReplicationPeerConfigRequest, caller: Caller) -> Message:
        config, before = request.peer_config, self._config(request.peer_id)
        merged = {pair.name: pair.value for pair in (*before.configuration, *config.configuration)}
        del config.configuration[:]
        config.configuration.extend(pb.NameStringPair(name=name, value=value) for name, value in merged.items())
        with self._order("update", request.peer_id):
            self._put(request.peer_id, config)
        return pb.UpdateReplicationPeerConfigResponse()

    def _enable(self, request: pb.EnableReplicationPeerRequest, caller: Caller) -> Message:
        if self.state_of(request.peer_id) == ENABLED:
            raise CallRefused(JavaException.DO_NOT_RETRY, "it has already been enabled", do_not_retry=True)
        with self._order("enable", request.peer_id):
            self.hbase.set_state(request.peer_id, ENABLED)
        return pb.EnableReplicationPeerResponse()

    def _remove(self, request: pb.RemoveReplicationPeerRequest, caller: Caller) -> Message:
        with self._order("remove", request.peer_id):
            self.hbase.zk.delete(self.hbase.nodes.peer(request.peer_id), recursive=True)
            self.hbase.zk.delete(self.hbase.nodes.queue(self.server, request.peer_id), recursive=True)
        return pb.RemoveReplicationPeerResponse()

    def _roll(self, request: pb.RollWALWriterRequest, caller: Caller) -> Message:
        self.roll()
        return pb.RollWALWriterResponse()

    @contextmanager
    def _order(self, order: str, peer_id: str) -> Iterator[None]:
        self.before(order, peer_id)
        if order[:3] != "add" and self.state_of(peer_id) is None:
            raise CallRefused(JavaException.DO_NOT_RETRY, f"no peer {peer_id}", do_not_retry=True)
        yield
        self.orders.append(f"{order} {peer_id}")
        self.after(order, peer_id)

    def _put(self, peer_id: str, config: pb.ReplicationPeer) -> None:
        self.hbase.zk.set(self.hbase.nodes.peer(peer_id), prefixed(PBUF + config.SerializeToString()))

    def _config(self, peer_id: str) -> pb.ReplicationPeer:
        path = self.hbase.nodes.peer(peer_id)
        return decode_peer(self.hbase.zk.get(path)[0], path)

    def methods(self) -> dict[str, dict[str, Method]]:
        answers: dict[str, tuple[type[Message], Callable[[Any, Caller], Message]]] = {
            "ListReplicationPeers": (pb.ListReplicationPeersRequest, self._list),
            "GetReplicationPeerConfig": (pb.GetReplicationPeerConfigRequest, self._get),
            "AddReplicationPeer": (pb.AddReplicationPeerRequest, self._add),
            "UpdateReplicationPeerConfig": (pb.UpdateReplicationPeerConfigRequest, self._update),
            "EnableReplicationPeer": (pb.EnableReplicationPeerRequest, self._enable),
            "RemoveReplicationPeer": (pb.RemoveReplicationPeerRequest, self._remove),
        }
        roll = Method(pb.RollWALWriterRequest, self._roll)
        return {"MasterService": {name: Method(*both) for name, both in answers.items()}, "AdminService": {"RollWALWriter": roll}}


@contextmanager
def peer_master(hbase: HBaseZNodes, folder: Path) -> Iterator[PeerMaster]:
    """A Master and a RegionServer of a cluster that has none yet. Closed WALs lie in `folder`/oldWALs."""
    (folder / "oldWALs").mkdir(parents=True)
    master = PeerMaster(hbase, folder / "oldWALs")
    with RpcServer(master.methods()) as server:
        name = pb.ServerName(host_name="127.0.0.1", port=server.port, start_code=1)
        hbase.zk.create(hbase.nodes.master, prefixed(PBUF + pb.Master(master=name).SerializeToString()))
        master.server = f"127.0.0.1,{server.port},1700000000001"
        hbase.start_server(master.server)
        for peer_id in hbase.children(hbase.nodes.peers):
            hbase.add_wal(master.server, peer_id, master.open_wal)
        yield master
