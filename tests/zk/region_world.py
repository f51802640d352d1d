"""A cluster of HBase 1 as ZooKeeper sees it: RegionServers that open and close regions step by step, and masters."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, ConnectionLoss, NodeExistsError, NoNodeError, SessionExpiredError

from tests.zk import regionserver
from tests.zk.hbase_znodes import await_last
from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import disconnect
from walferry.base.zk.fenced_lock import FencedLock
from walferry.hbase.layout import OwnZNodes, ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.errors import ConnectionFailed
from walferry.hbase.values import PBUF
from walferry.master.calls import ToOpen, opening_ms
from walferry.master.errors import LiveMaster, RoleHeld, RoleLost
from walferry.master.plans import Plan
from walferry.master.reconcile import ClusterView, Known, act, begin_to_close, decide_all, look
from walferry.master.role import OUR_VERSION, publish, take_role, withdraw
from walferry.master.startup import clear, why_not_startup
from walferry.master.states import OF_SPLITS, RegionState
from walferry.master.writes import MasterWrites
from walferry.master.znodes import RegionInTransition, encode_region, encoded_name, read_region

T = TypeVar("T")

# These servers do not look at the regions that they have to open.
INFO = pb.RegionInfo(region_id=1, table_name=pb.TableName(namespace=b"default", qualifier=b"t"))
HMASTER = PBUF + pb.Master(master=pb.ServerName(host_name="hmaster", port=16000, start_code=1)).SerializeToString()


def region_name(n: int) -> bytes:
    """Return a region's full name; its encoded name is made of `n`."""
    return f"t,row{n},1700000000000.{n:032x}.".encode()


@dataclass
class Server:
    """A RegionServer. Its orders lie in `asked` until a step takes them."""

    name: ServerName
    zk: KazooClient
    alive: bool = True
    has_wals: bool = False  # HBase's server makes its folder when it opens its first region
    asked: list[tuple[str, str, int]] = field(default_factory=list)  # order, region, version
    times: dict[tuple[str, int], int] = field(default_factory=dict)  # the master's, by region and version to be opened
    opening: dict[str, int] = field(default_factory=dict)  # the version of its OPENING
    opens_at: dict[str, int] = field(default_factory=dict)  # the time under which hbase:meta has to name the server
    reported: dict[str, int] = field(default_factory=dict)  # regions that are opening and noted in hbase:meta
    nearly: set[str] = field(default_factory=set)  # the znode is OPENED, but the server does not yet list the region
    closing: dict[str, int] = field(default_factory=dict)
    online: set[str] = field(default_factory=set)
    reshaping: dict[str, Reshaping] = field(default_factory=dict)  # by the region whose znode is used

    def busy(self, encoded: str) -> bool:
        """Return whether the server does something with the region besides serving it."""
        at_work = {*self.opening, *self.reported, *self.nearly, *self.closing}
        return encoded in at_work or any(encoded in each.before or encoded in each.after for each in self.reshaping.values())


@dataclass
class Reshaping:
    """A split or a merge at its server. The regions of `after` replace the regions of `before`."""

    before: list[str]
    after: list[str]
    version: int = 0
    phase: str = "requested"

    @property
    def is_split(self) -> bool:
        return len(self.before) == 1


class RegionWorld:
    """Servers, regions, and the content of hbase:meta. A dead server counts as serving its regions until its WALs are split.

    A region has some rows. Splits share the rows between two regions, and merges bring them together.
    """

    def __init__(self, zk: KazooClient, new_client: Callable[[], KazooClient], regions: int, seed: int) -> None:
        self.zk = zk
        self.new_client = new_client
        self.nodes = ZNodes(f"/hbase-{uuid.uuid4().hex[:8]}")
        self.own = OwnZNodes(f"/walferry{self.nodes.base.replace('/', '-')}", self.nodes)
        for path in (self.nodes.rs, self.nodes.in_transition, self.own.region_plans):
            zk.ensure_path(path)
        self.names: dict[str, bytes] = {}
        self.rows: dict[str, frozenset[int]] = {}
        self.meta: dict[str, ServerName | None] = {}
        self.meta_ms: dict[str, int] = {}  # when hbase:meta was changed
        for n in range(regions):
            self.meta[self.new_region(frozenset(range(4 * n, 4 * n + 4)))] = None
        self.all_rows = range(4 * regions)
        self.enabled = True
        self.servers: list[Server] = []
        self.unsplit: dict[ServerName, frozenset[str]] = {}  # dead servers, and the regions that they served
        self.chance = random.Random(seed)
        self.started = 0
        self.masters = 0
        self.hmasters = OwnZNodes(f"{self.own.root}-hmasters", self.nodes)
        self.hmaster_was_active = False
        self.scan_steps = self.chance.choice([1, 1, 12])  # how long it takes to scan hbase:meta and to list WALs
        self.haste = self.chance.choice([1.0, 1.0, 4.0])  # how often servers die and their WALs are split
        self.reshapes = self.chance.choice([0.02, 0.3])  # some worlds are full of splits and merges
        self.unrest = self.chance.choice([1.0, 1.0, 8.0])  # how often masters come and go

    def new_master(self) -> ServerName:
        self.masters += 1
        return ServerName("master.example.org", 16000, self.masters)

    def delete_master_znode(self) -> None:
        """Delete our znode, as an operator may who thinks that Walferry is dead. A waiting HMaster then becomes active."""
        with suppress(NoNodeError, BadVersionError):
            self.zk.delete(self.nodes.master, OUR_VERSION)

    # Servers

    @property
    def live(self) -> list[Server]:
        return [server for server in self.servers if server.alive]

    def start_server(self) -> None:
        self.started += 1
        name = ServerName(f"rs{self.started % 4}.example.org", 16020, 1_700_000_000_000 + self.started)
        server = Server(name, self.new_client())
        server.zk.create(f"{self.nodes.rs}/{name}", ephemeral=True)
        self.servers.append(server)

    def kill_server(self, server: Server) -> None:
        """End the server's session; it does nothing more. Its WALs are not split yet."""
        server.alive = False
        if server.has_wals:
            self.unsplit[server.name] = frozenset(server.online | server.nearly)
        disconnect(server.zk)

    def split_wals(self, name: ServerName) -> None:
        self.unsplit.pop(name)

    def new_region(self, rows: frozenset[int]) -> str:
        name = region_name(len(self.names))
        self.names[encoded_name(name)], self.rows[encoded_name(name)] = name, rows
        return encoded_name(name)

    def serving(self, row: int) -> list[str]:
        """Return all servers that serve the row, or died serving it and may have edits that no other server has yet."""
        online = [(server.name, server.online | server.nearly) for server in self.live]
        found = [(name, each) for name, regions in [*online, *self.unsplit.items()] for each in regions]
        return [f"{name} in {each}" for name, each in found if row in self.rows[each]]

    def clock(self) -> float:
        """Return the time. No time passes between OPENED and the server listing the region; all else may take hours."""
        return 0.0 if any(server.nearly for server in self.live) else time.time() + 3600

    def server_step(self, server: Server, *, settle: bool = False) -> None:
        """Make one step of one server: it takes an order, or goes on with a region that it opens, closes or reshapes."""
        choices: list[Callable[[], None]] = []
        if server.asked:
            choices.append(lambda: self._take(server, server.asked.pop(self.chance.randrange(len(server.asked)))))
        choices += [lambda region=region: self._opens(server, region, settle) for region in server.opening]
        choices += [lambda region=region: self._opened(server, region) for region in server.reported]
        choices += [lambda region=region: self._listed(server, region) for region in server.nearly]
        choices += [lambda region=region: self._closed(server, region) for region in server.closing]
        choices += [lambda region=region: self._reshape(server, region, settle) for region in server.reshaping]
        if not settle and self.chance.random() < self.reshapes:
            choices.append(lambda: self._request(server))
        if choices:
            self.chance.choice(choices)()

    def _take(self, server: Server, asked: tuple[str, str, int]) -> None:
        what, region, version = asked
        if what == "close":
            if region in server.online:  # also while it waits for a merge to be allowed
                server.closing[region] = version
        elif region not in server.online and not server.busy(region):
            opening = regionserver.begin_open(server.zk, self.nodes, server.name, region, version)
            if opening is not None:
                server.opening[region] = opening
                server.opens_at[region] = server.times[region, version]

    def _opens(self, server: Server, region: str, settle: bool) -> None:
        version = server.opening.pop(region)
        if not settle and self.chance.random() < 0.15:
            regionserver.fail_open(server.zk, self.nodes, server.name, region, version)
            return
        reported = regionserver.keep_opening(server.zk, self.nodes, server.name, region, version)
        if reported is not None:
            self.tell_meta(region, server.name, server.opens_at[region])
            server.reported[region] = reported

    def tell_meta(self, region: str, name: ServerName, now_ms: int) -> None:
        """Write an entry of hbase:meta, which is hidden if there is an entry with a later time."""
        if now_ms >= self.meta_ms.get(region, 0):
            self.meta[region], self.meta_ms[region] = name, now_ms

    def _opened(self, server: Server, region: str) -> None:
        version = server.reported.pop(region)
        server.has_wals = True
        if regionserver.finish_open(server.zk, self.nodes, server.name, region, version) is not None:
            server.nearly.add(region)

    def _listed(self, server: Server, region: str) -> None:
        server.nearly.discard(region)
        server.online.add(region)

    def _closed(self, server: Server, region: str) -> None:
        version = server.closing.pop(region)
        server.online.discard(region)
        regionserver.close(server.zk, self.nodes, server.name, region, version)

    def settle_server(self, server: Server) -> None:
        """Let a server finish all its orders and all that it has begun, without failures of its own."""
        while server.alive and (server.asked or server.opening or server.reported or server.nearly or server.closing):
            self.server_step(server, settle=True)
        for region in list(server.reshaping):
            self._reshape(server, region, settle=True)

    # Splits and merges

    def _request(self, server: Server) -> None:
        idle = sorted(region for region in server.online if not server.busy(region))
        if not idle:
            return
        first = self.chance.choice(idle)
        others = [region for region in idle if region != first]
        rows = sorted(self.rows[first])
        if len(rows) > 1 and (not others or self.chance.random() < 0.5):
            halves = frozenset(rows[: len(rows) // 2]), frozenset(rows[len(rows) // 2 :])
            reshaping = Reshaping([first], [self.new_region(half) for half in halves])
            place, state = first, RegionState.REQUEST_SPLIT
        elif others:
            both = [first, self.chance.choice(others)]
            place = self.new_region(self.rows[both[0]] | self.rows[both[1]])
            reshaping, state = Reshaping(both, [place]), RegionState.REQUEST_MERGE
        else:
            return
        with suppress(NodeExistsError):
            value = encode_region(self.names[place], state, server.name, b"daughters")
            server.zk.create(self.nodes.region_in_transition(place), value, ephemeral=True)
            server.reshaping[place] = reshaping

    def _reshape(self, server: Server, place: str, settle: bool) -> None:
        """Make the next step of a split or a merge, as SplitTransactionImpl and RegionMergeTransactionImpl do."""
        at = server.reshaping[place]
        requested, doing, done = (
            (RegionState.REQUEST_SPLIT, RegionState.SPLITTING, RegionState.SPLIT) if at.is_split else
            (RegionState.REQUEST_MERGE, RegionState.MERGING, RegionState.MERGED)
        )  # fmt: skip
        gives_up = not settle and self.chance.random() < 0.1
        if at.phase == "requested":
            seen = read_region(server.zk, self.nodes, place)
            if seen is not None and seen.state is doing:
                at.version, at.phase = seen.version, "allowed"
            elif seen is None or gives_up:
                self._give_up(server, place)
            else:
                self._set(server, place, requested, seen.version)
        elif at.phase == "allowed":
            if gives_up or not server.online.issuperset(at.before) or server.closing.keys() & set(at.before):
                self._give_up(server, place)
                return
            server.online.difference_update(at.before)
            at.phase = "closed"
        elif at.phase == "closed":
            if gives_up:
                server.online.update(at.before)
                self._give_up(server, place)
                return
            for region in at.before:
                del self.meta[region]
            for region in at.after:
                self.tell_meta(region, server.name, int(time.time() * 1000))
            at.phase = "in meta"
        elif at.phase == "in meta":
            server.online.update(at.after)
            at.phase = "open"
        elif at.phase == "open":
            if not self._set(server, place, done, at.version):
                self.kill_server(server)  # HBase's server aborts here
                return
            at.version, at.phase = at.version + 1, "done"
        elif self._set(server, place, done, at.version):
            at.version += 1
        else:
            del server.reshaping[place]  # the master has seen it

    def _set(self, server: Server, place: str, state: RegionState, version: int) -> bool:
        value = encode_region(self.names[place], state, server.name, b"daughters")
        try:
            server.zk.set(self.nodes.region_in_transition(place), value, version)
        except (BadVersionError, NoNodeError):
            return False
        return True

    def _give_up(self, server: Server, place: str) -> None:
        del server.reshaping[place]
        with suppress(NoNodeError):
            seen = read_region(server.zk, self.nodes, place)
            if seen is not None and seen.server == server.name and seen.state in OF_SPLITS:
                server.zk.delete(self.nodes.region_in_transition(place))

    # What masters see

    def catalog(self) -> dict[str, Known]:
        return {
            encoded: Known(self.names[encoded], INFO, server, self.enabled, self.meta_ms.get(encoded, 0))
            for encoded, server in self.meta.items()
        }

    def with_wals(self) -> frozenset[ServerName]:
        return frozenset(self.unsplit) | {server.name for server in self.live if server.has_wals}


class Asked:
    """The servers of a world as one master calls them. Calls may be lost or come twice, and answers may be lost."""

    def __init__(self, world: RegionWorld, pause: Callable[[], None]) -> None:
        self.world = world
        self.pause = pause
        self.ahead_ms = world.chance.choice([-1, 0, 1]) * 7_200_000

    def online(self, servers: Iterable[ServerName]) -> Mapping[ServerName, frozenset[str]]:
        wanted, answers = set(servers), {}
        for server in list(self.world.servers):
            if server.name in wanted:
                self.pause()
                if server.alive and self.world.chance.random() > 0.05:
                    answers[server.name] = frozenset(server.online)
        return answers

    def open(self, wanted: Mapping[ServerName, Sequence[ToOpen]]) -> Mapping[ServerName, WalferryError]:
        failed: dict[ServerName, WalferryError] = {}
        for server, regions in wanted.items():
            try:
                self._open(server, regions)
            except ConnectionFailed as error:
                failed[server] = error
        return failed

    def _open(self, name: ServerName, regions: Sequence[ToOpen]) -> None:
        now_ms = opening_ms(regions, int(time.time() * 1000) + self.ahead_ms)
        for server in self.world.live:
            if server.name == name:
                server.times |= {(each.znode.encoded_name, each.znode.version): now_ms for each in regions}
        self._send(name, [("open", each.znode.encoded_name, each.znode.version) for each in regions])

    def close(self, wanted: Mapping[ServerName, Sequence[RegionInTransition]]) -> Mapping[str, WalferryError]:
        failed: dict[str, WalferryError] = {}
        for server, regions in wanted.items():
            try:
                self._send(server, [("close", each.encoded_name, each.version) for each in regions])
            except ConnectionFailed as error:
                failed |= dict.fromkeys((each.encoded_name for each in regions), error)
        return failed

    def close_copy(self, server: ServerName, encoded_name: str) -> None:
        for each in self.world.live:
            if each.name == server:
                each.online.discard(encoded_name)

    def _send(self, name: ServerName, asked: list[tuple[str, str, int]]) -> None:
        self.pause()
        server = next((each for each in self.world.live if each.name == name), None)
        chance = self.world.chance.random()
        if server is not None and chance > 0.1:
            server.asked += asked * (2 if chance > 0.95 else 1)
        if server is None or chance < 0.2:
            raise ConnectionFailed(str(name), "the answer was lost")


def be_master(
    world: RegionWorld, zk: KazooClient, holder: str, pause: Callable[[], None], passes: int, run: str | None = None
) -> None:
    """Take the role, look and act a few times, and begin to move or close regions at random. Ends if the role is lost.

    An earlier master of the same `run` is replaced, although its session lives on.
    """
    try:
        lock = take_role(zk, world.nodes, world.own, holder, run)
    except (RoleHeld, RoleLost):
        return
    with suppress(RoleLost, LiveMaster):
        publish(zk, world.nodes, lock, world.new_master())
        _work(world, zk, world.own, lock, pause, passes)
        withdraw(world.nodes, lock)
    lock.release()


def be_hmaster(world: RegionWorld, zk: KazooClient, holder: str, pause: Callable[[], None], passes: int) -> None:
    """Do the same as `be_master`, but as an HMaster: only its znode keeps other masters out, and it does not know our plans."""
    with suppress(NodeExistsError, RoleHeld, RoleLost, SessionExpiredError, ConnectionLoss):
        zk.create(world.nodes.master, HMASTER, ephemeral=True)
        world.hmaster_was_active = True
        lock = take_role(zk, world.nodes, world.hmasters, holder)
        _work(world, zk, world.hmasters, lock, pause, passes)
        lock.write(lambda multi: multi.delete(world.nodes.master))
        lock.release()


def _work(world: RegionWorld, zk: KazooClient, own: OwnZNodes, lock: FencedLock, pause: Callable[[], None], passes: int) -> None:
    """Look and act. Raises RoleLost."""
    writes = MasterWrites(zk, world.nodes, own, lock)
    servers = Asked(world, pause)

    def slowly(read: Callable[[], T], steps: int = 1) -> T:
        pause()
        found = read()
        for _ in range(steps):
            pause()
        return found

    def catalog() -> Mapping[str, Known]:
        return slowly(world.catalog, world.scan_steps)

    def with_wals() -> frozenset[ServerName]:
        return slowly(world.with_wals, world.scan_steps)

    for _ in range(passes):
        view = look(zk, world.nodes, own, servers, catalog, with_wals, world.clock)
        if world.chance.random() < 0.1 and not why_not_startup(view):
            clear(view, writes)
            continue
        if view.servers.live:
            # With the short limit no server has time, except between OPENED and the moment when it lists the region.
            decided = decide_all(view, world.chance.choice([1.0, 600.0 + 3600.0]))
            act(view, decided, writes, servers, lambda _, live: world.chance.choice(sorted(live)))
        _begin_something(world, view, writes, servers)


def _begin_something(world: RegionWorld, view: ClusterView, writes: MasterWrites, servers: Asked) -> None:
    if world.chance.random() < 0.2 or not view.servers.live:
        return
    encoded = world.chance.choice(sorted(view.regions))
    if world.enabled:
        plan = Plan(world.chance.choice([None, *sorted(view.servers.live)]), True, "balance")
        begin_to_close(view, {encoded: plan}, writes, servers)
    else:
        begin_to_close(view, {encoded: Plan(None, False, "disable")}, writes, servers)


def states(world: RegionWorld) -> dict[str, tuple[bytes, int]]:
    """The znode of each region in transition: its value and version."""
    found = {}
    names = world.zk.get_children(world.nodes.in_transition)
    asked = {encoded: world.zk.get_async(world.nodes.region_in_transition(encoded)) for encoded in names}
    await_last(asked.values())
    for encoded, answer in asked.items():
        with suppress(NoNodeError):
            value, stat = answer.get()
            found[encoded] = (value, stat.version)
    return found
