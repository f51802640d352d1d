"""The settings of how a peer is shipped: HBase's replication settings under HBase's names, and three of Walferry's own.

    connection's extra      {"replication.source.ratio": 0.2}                    for all peers of the source
    peer's configuration    walferry.replication.source.ratio = 0.2              for this peer; wins over the connection's
                            hbase.replication.drop.on.deleted.table = true       HBase's own form, for these settings only

HBase's own names are in ReplicationSource, HBaseInterClusterReplicationEndpoint, ReplicationSourceShipper,
ReplicationSourceWALReader and ReplicationSinkManager. As in HBase, times are in milliseconds and sizes in bytes. Two defaults
differ from HBase's because they count something else here: see `_KNOBS`. HBase knows neither sink nor replication.sink.tries
nor replication.slave.patience.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from walferry.hbase.errors import PeerError

if TYPE_CHECKING:  # DAG files import the source's connection, and are parsed without kazoo
    from walferry.replication.peers.reading import Peer

PREFIX = "walferry."  # of the peer's keys that are for Walferry; HBase ignores them

_MS = 1000.0
_KIB, _MIB = 1 << 10, 1 << 20


class SinkKind(StrEnum):
    """How edits are sent to the slave.

    DIRECT costs the slave about half as much, and is the default. It needs a user who may write to the slave's tables. A slave
    that refuses gets the edits as REPLICATE says. REPLICATE is for a slave that has to see that it is replication, because its
    RegionServers have coprocessors or filters for it or the user's rights do not suffice otherwise.
    """

    DIRECT = "direct"  # its regions are written to
    REPLICATE = "replicate"  # some of its RegionServers take the edits as HBase's own sources send them
    HFILES = "hfiles"  # files are written of them, which it loads; what cannot go so is sent as the peer says otherwise
    AUTO = "auto"  # as files if there are many of them

    @property
    def makes_files(self) -> bool:
        """Whether edits may go as files."""
        return self not in REQUEST_SINKS


REQUEST_SINKS = (SinkKind.DIRECT, SinkKind.REPLICATE)


@dataclass(frozen=True, kw_only=True)
class PeerSettings:
    """The settings of one peer. Seconds and bytes."""

    sink: SinkKind = SinkKind.DIRECT
    otherwise: SinkKind = SinkKind.DIRECT  # how edits are sent that do not go as files; no key of its own
    hfiles_from: int = 256 * _MIB
    retries_multiplier: int = 300
    sleep_seconds: float = 1.0
    subset_tries: int = 10
    ratio: float = 0.5
    bad_sink_threshold: int = 3
    senders: int = 10
    shipment_bytes: int = 2 * _MIB
    shipment_entries: int = 25_000
    buffer_bytes: int = 64 * _MIB
    call_timeout_seconds: float = 60.0
    patience_seconds: float = 90.0
    drop_deleted_tables: bool = False
    drop_deleted_families: bool = False

    @property
    def requests(self) -> SinkKind:
        """How requests are sent."""
        return self.otherwise if self.sink.makes_files else self.sink

    def chosen(self, sink: SinkKind | None) -> PeerSettings:
        """These settings for a run that asks for a sink, or for none in particular."""
        return self if sink is None else replace(self, sink=sink, otherwise=self.requests)

    @property
    def least_bytes(self) -> int:
        """The bytes of WALs from which they are loaded as files, if the sink makes files."""
        return self.hfiles_from if self.sink is SinkKind.AUTO else 0

    @classmethod
    def of(cls, settings: Mapping[str, str], peer: Peer) -> PeerSettings:
        """The settings of a peer: its own, else the connection's `settings`, else the defaults. Raises PeerError."""
        from walferry.replication.peers.reading import MANAGED_KEY, MARKS, PAUSED_KEY

        if (paused := peer.config.get(PAUSED_KEY, "").strip()).lower() not in ("", "true", "false"):
            raise PeerError(peer.id, f"in its configuration, {PAUSED_KEY} is {paused!r}; it must be true or false", "Correct it")
        # HBase's Master cannot remove a key of a peer, so an empty value stands for none.
        ours = {key: value for key, value in peer.config.items() if key.startswith(PREFIX) and value.strip()}
        own = {key.removeprefix(PREFIX): value for key, value in ours.items() if key not in MARKS}
        if unknown := sorted(own.keys() - KEYS):
            raise PeerError(
                peer.id,
                f"its configuration has {', '.join(PREFIX + key for key in unknown)}, which Walferry does not know",
                f"Remove it, or correct its name; Walferry knows {MANAGED_KEY} and {', '.join(PREFIX + key for key in KEYS)}",
            )
        theirs = parsed(settings)  # checked when the connection was read
        try:
            hbases = parsed({key: peer.config[key] for key in HBASES_KEYS if key in peer.config})
        except ValueError as error:
            raise PeerError(peer.id, f"in its configuration, {error}", "Correct it") from None
        try:
            return cls(**theirs | hbases | parsed(own))
        except ValueError as error:
            raise PeerError(peer.id, f"in its configuration, {PREFIX}{error}", "Correct it") from None


def refusal(peer: Peer) -> str | None:
    """Say why Walferry may not ship the peer, by its state and configuration; None if it may, or is only paused."""
    from walferry.replication.peers.reading import check_ours

    try:
        check_ours(peer)
        PeerSettings.of({}, peer)
    except PeerError as error:
        return str(error)
    return None


@dataclass(frozen=True)
class _Setting:
    field: str
    key: str
    what: str
    least: float = 0
    most: float = 1
    unit: float = 1  # how many of the key's units are one of the field's

    @property
    def choices(self) -> tuple[StrEnum, ...]:
        """The values that it may have, if it is a choice."""
        default = getattr(PeerSettings, self.field)
        return tuple(type(default)) if isinstance(default, StrEnum) else ()

    @property
    def flag(self) -> bool:
        return isinstance(getattr(PeerSettings, self.field), bool)

    @property
    def whole(self) -> bool:
        return isinstance(getattr(PeerSettings, self.field), int)


_SOURCE = "replication.source."
_SETTINGS = (
    _Setting("sink", "sink", "how edits are sent to the slave"),
    _Setting("hfiles_from", "hfiles.from", "the bytes of WALs from which the sink auto makes files of them", 0, 1 << 50),
    # The nth failure in a row is followed by a sleep of n times the base sleep; n grows no further than the multiplier.
    _Setting("retries_multiplier", _SOURCE + "maxretriesmultiplier", "how many base sleeps a sleep grows to", 1, 10_000),
    _Setting("sleep_seconds", _SOURCE + "sleepforretries", "the base sleep between tries in ms", 1, 600_000, _MS),
    _Setting("subset_tries", "replication.sink.tries", "the failures in a row before other sinks are drawn", 1, 10_000),
    _Setting("ratio", _SOURCE + "ratio", "the share of the slave's RegionServers to ship to", 0.001, 1),
    _Setting("bad_sink_threshold", "replication.bad.sink.threshold", "the failures in a row that a sink may have", 0, 1000),
    # HBase: threads of one RegionServer and peer. Here: senders of a job, shared out among its WAL groups.
    _Setting("senders", "hbase.replication.source.maxthreads", "the senders of a job", 1, 64),
    # HBase's 64 MiB are what all threads together divide among their requests. Here it is one request.
    _Setting("shipment_bytes", _SOURCE + "size.capacity", "the bytes of cells in one request", 16 * _KIB, 64 * _MIB),
    _Setting("shipment_entries", _SOURCE + "nb.capacity", "the entries in one request", 1, 1_000_000),
    # HBase's 256 MiB are for all peers of a RegionServer. Here it is what the task of one WAL group holds.
    _Setting("buffer_bytes", "replication.total.buffer.quota", "the bytes of edits that a WAL group holds", _MIB, 4096 * _MIB),
    _Setting("call_timeout_seconds", _SOURCE + "shipedits.timeout", "a sink's time for a request in ms", 100, 3_600_000, _MS),
    # HBase has none: its sources wait for ever.
    _Setting("patience_seconds", "replication.slave.patience", "the time in ms that a silent slave gets", 1000, 86_400_000, _MS),
    # Of tables and families that exist neither at the slave nor at the source any more (HBaseInterClusterReplicationEndpoint).
    _Setting("drop_deleted_tables", "hbase.replication.drop.on.deleted.table", "whether edits of deleted tables are dropped"),
    _Setting("drop_deleted_families", "hbase.replication.drop.on.deleted.columnfamily", "whether those of deleted families are"),
)
KEYS = tuple(setting.key for setting in _SETTINGS)
# HBase, too, reads these from the peer's configuration, and they mean the same there.
HBASES_KEYS = tuple(setting.key for setting in _SETTINGS if setting.flag)


def parsed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of PeerSettings from known keys. Raises ValueError naming the first wrong key, its value and what it should be."""
    found = {}
    for setting in _SETTINGS:
        if setting.key in settings:
            found[setting.field] = _value(setting, settings[setting.key])
    return found


def _value(setting: _Setting, text: Any) -> Any:
    if setting.choices:
        return _choice(setting, str(text))
    if setting.flag:
        return _flag(setting, str(text))
    kind = "a whole number" if setting.whole or setting.unit != 1 else "a number"
    try:
        number = int(str(text)) if kind == "a whole number" else float(str(text))
    except ValueError:
        number = float("nan")
    if isinstance(text, bool) or not setting.least <= number <= setting.most:  # which NaN never is
        raise ValueError(
            f"{setting.key} is {str(text)[:100]!r}; "
            f"it must be {setting.what}: {kind} from {setting.least:.16g} to {setting.most:.16g}"
        )
    return number if setting.unit == 1 else number / setting.unit


def _choice(setting: _Setting, text: str) -> StrEnum:
    for choice in setting.choices:
        if choice == text.strip().lower():
            return choice
    raise ValueError(f"{setting.key} is {text[:100]!r}; it must be {setting.what}: {' or '.join(setting.choices)}")


def _flag(setting: _Setting, text: str) -> bool:
    if (lower := text.strip().lower()) not in ("true", "false"):
        raise ValueError(f"{setting.key} is {text[:100]!r}; it must be {setting.what}: true or false")
    return lower == "true"
