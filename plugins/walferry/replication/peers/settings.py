"""All settings of a peer: one table of their names, values, units and checks.

    connection's extra      {"replication.source.ratio": 0.2}                    for all peers of the source
    peer's configuration    walferry.replication.source.ratio = 0.2              for this peer; wins over the connection's
                            hbase.replication.drop.on.deleted.table = true       HBase's own form, for these settings only
                            walferry.max_lag = 900                               a mark, which only peers have
    peer's fields           bandwidth, namespaces, …                             HBase's own; the fields that Walferry heeds

The code that reads and checks settings, `peers set` and `peers show`, forms and docs/settings.md are all made from this table.

HBase's own names are in ReplicationSource, HBaseInterClusterReplicationEndpoint, ReplicationSourceShipper,
ReplicationSourceWALReader and ReplicationSinkManager. As in HBase, times are in milliseconds and sizes in bytes. Two defaults
differ from HBase's because they count something different here: size.capacity and buffer.quota.

This module imports no ZooKeeper client: DAG files and the source's connection import it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Protocol

from walferry.base.texts import did_you_mean
from walferry.hbase.errors import PeerError
from walferry.replication.peers.column_mappings import parse_mappings
from walferry.replication.peers.topic_rules import TopicRules

PREFIX = "walferry."  # of the peer's keys that are for Walferry; HBase ignores these keys
CALL_TIMEOUT = "replication.source.shipedits.timeout"  # HBase 2 also reads it from a peer's configuration, for its own calls
MAX_SHOWN_CHARS = 100
_SOURCE = "replication.source."
_BROKER = re.compile(r"[a-z0-9]([a-z0-9.-]{0,253})?:[0-9]{1,5}")
_KIB, _MIB = 1 << 10, 1 << 20


class SinkKind(StrEnum):
    """How edits are sent to the peer cluster.

    DIRECT costs the peer cluster about half as much, and is the default. It needs a user who may write to the peer cluster's
    tables. If the peer cluster refuses, the edits are sent as with REPLICATE. REPLICATE is for a peer cluster that must recognize
    replication, because its RegionServers have coprocessors or filters for it, or because the user's rights do not suffice
    otherwise.
    """

    DIRECT = "direct"  # writes to the peer cluster's regions
    REPLICATE = "replicate"  # some RegionServers of the peer cluster take the edits as HBase's own sources send them
    HFILES = "hfiles"  # writes files, which the peer cluster loads; edits that cannot go as files go in the peer's other way
    AUTO = "auto"  # as files if there are many edits

    @property
    def makes_files(self) -> bool:
        """Whether edits may go as files."""
        return self not in REQUEST_SINKS


class Records(StrEnum):
    """The form of a cell in Kafka."""

    AVRO = "avro"  # as HBase's Kafka proxy writes it
    DEBEZIUM = "debezium"  # JSON, in the envelope of Debezium's connectors


def brokers(text: str) -> str:
    """Return hosts and ports of Kafka's brokers, in the form that all spellings of them share. Raises ValueError."""
    found = sorted({each.strip().lower() for each in text.split(",") if each.strip()})
    if not found or not all(_BROKER.fullmatch(each) for each in found):
        raise ValueError(f"{text[:MAX_SHOWN_CHARS]!r} does not name brokers of Kafka; it must be like kafka1:9092,kafka2:9092")
    return ",".join(found)


class SinkHooks(StrEnum):
    """Whether the peer cluster has classes that see only replicated edits, and that direct writes and files pass by."""

    LOOK = "look"  # read its configuration, if it can be read
    PRESENT = "present"
    NONE = "none"  # or they do not matter


REQUEST_SINKS = (SinkKind.DIRECT, SinkKind.REPLICATE)


class Configured(Protocol):
    """A peer, as far as its settings need it."""

    @property
    def id(self) -> str: ...
    @property
    def config(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class Setting:
    """A row of the table."""

    key: str  # the key in a peer's configuration, or HBase's field
    values: str = ""  # the allowed values, if the other fields do not give them
    set_by: str = ""
    remark: str = ""  # an addition to `what` for the documentation
    what: str = ""  # the meaning of the value, for errors
    least: float = 0
    most: float = 1
    unit: str = ""
    hbase: bool = False  # HBase reads the setting too, by its name alone
    kind: type = str
    read: Callable[[str], Any] | None = None  # parses the text, and raises ValueError; None: as `kind` says
    default: Any = None  # in seconds, where the unit is ms
    attribute: str = ""  # the attribute of PeerSettings

    @property
    def name(self) -> str:
        """The name for `peers set` and the connection."""
        return self.key.removeprefix(PREFIX)

    @property
    def ours(self) -> bool:
        """Whether the setting is Walferry's, and so in the peer's configuration."""
        return self.key.startswith(PREFIX)

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a choice."""
        return ("true", "false") if self.kind is bool else tuple(self.kind) if issubclass(self.kind, StrEnum) else ()

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        limits = f"from {self.least} to {self.most}"
        if self.values or self.choices:
            return self.values or " or ".join(self.choices)
        if not self.what:
            return f"a number of {self.unit} {limits}"
        return f"{'a whole number' if self.kind is int or self.unit == 'ms' else 'a number'} {limits} {self.unit}".rstrip()

    def text(self, config: Mapping[str, str]) -> str:
        """Return the value's text in a peer's configuration. HBase's Master cannot remove a key, so empty means no value."""
        return config.get(self.key, "").strip()

    def of(self, peer: Configured) -> Any:
        """Return the setting's value in the peer's configuration; None if it is not set there. Raises PeerError."""
        for key in (self.key, self.name) if self.hbase else (self.key,):
            if text := peer.config.get(key, "").strip():
                try:
                    return self.parse(text, key)
                except ValueError as error:
                    raise PeerError(peer.id, f"in its configuration, {error}", "Correct it with `peers set`") from None
        return None

    def parse(self, text: str, key: str = "") -> Any:
        """Parse a text. Raises a ValueError that names the key, the text and the allowed values."""
        if self.read is not None:
            try:
                return self.read(text)
            except ValueError as error:
                raise ValueError(f"{key or self.key}: {error}") from None
        plain = text.strip().lower()
        if self.kind is str:
            return text
        if plain in self.choices:
            return plain == "true" if self.kind is bool else self.kind(plain)
        if not self.choices and (number := self._number(plain)) is not None:
            return number
        must = f"{self.what}: {self.allowed}" if self.what else self.allowed
        raise ValueError(f"{key or self.key} is {text[:MAX_SHOWN_CHARS]!r}; it must be {must}")

    def _number(self, text: str) -> float | None:
        try:
            number = float(text) if self.kind is float and self.unit != "ms" else int(text)
        except ValueError:
            return None
        if not self.least <= number <= self.most:  # NaN fails this too
            return None
        return number / 1000 if self.unit == "ms" else number


def _row(name: str, what: str, least: float = 0, most: float = 1, unit: str = "", **more: Any) -> dict[str, Any]:
    return {"key": PREFIX + name, "what": what, "least": least, "most": most, "unit": unit, **more}


@dataclass(frozen=True, kw_only=True)
class PeerSettings:
    """How a peer is shipped. All times are in seconds, all sizes in bytes."""

    # fmt: off
    sink: SinkKind = field(default=SinkKind.DIRECT, metadata=_row(
        "sink", "how edits are sent to the peer cluster",
        remark=", see [below](#how-edits-are-sent-to-the-peer-cluster). Walferry's own"))
    otherwise: SinkKind = SinkKind.DIRECT  # the way for edits that do not go as files; has no key of its own
    hfiles_from: int = field(default=256 * _MIB, metadata=_row(
        "hfiles.from", "the size of the WALs from which the sink auto makes files of them", 0, 1 << 50, "bytes",
        remark=". Walferry's own"))
    sink_hooks: SinkHooks = field(default=SinkHooks.LOOK, metadata=_row(
        "sink_hooks", "whether the peer cluster has coprocessors or a filter for replicated edits",
        remark=": with them `auto` sends all edits by `replicate`, see [below](#coprocessors-and-filters-at-the-peer-cluster). "
        "Walferry's own"))
    ratio: float = field(default=0.5, metadata=_row(
        _SOURCE + "ratio", "the share of the peer cluster's RegionServers to ship to", 0.001, 1,
        remark=", at least one (0.1 in HBase 1); for `replicate` only"))
    bad_sink_threshold: int = field(default=3, metadata=_row(
        "replication.bad.sink.threshold", "the failures in a row that a sink may have", 0, 1000,
        remark=" before it is left out; one that does not answer at all is left out at once"))
    sleep_seconds: float = field(default=1.0, metadata=_row(
        _SOURCE + "sleepforretries", "the base sleep between tries", 1, 600_000, "ms",
        remark=": the nth failure in a row is followed by a sleep of n times as long"))
    retries_multiplier: int = field(default=300, metadata=_row(
        _SOURCE + "maxretriesmultiplier", "how many base sleeps a sleep grows to", 1, 10_000))
    subset_tries: int = field(default=10, metadata=_row(
        "replication.sink.tries", "the failures in a row before other sinks are drawn", 1, 10_000,
        remark=". Walferry's own: HBase draws others after each error"))
    call_timeout_seconds: float = field(default=60.0, metadata=_row(
        CALL_TIMEOUT, "a sink's time for a request", 100, 3_600_000, "ms",
        remark="; each timeout gives the next try as much more"))
    senders: int = field(default=10, metadata=_row(
        "hbase.replication.source.maxthreads", "the senders of a job", 1, 64,  # HBase: threads of one RegionServer and peer
        remark=", which send side by side, shared out among its WAL groups; each group has at least two (one, if the setting is "
        "1). Also how many calls of `direct` to one server are under way at once, see [below](#a-peer-cluster-that-is-far-away)"))
    shipment_entries: int = field(default=25_000, metadata=_row(
        _SOURCE + "nb.capacity", "the entries in one request", 1, 1_000_000))
    shipment_bytes: int = field(default=2 * _MIB, metadata=_row(
        _SOURCE + "size.capacity", "the size of the cells in one request", 16 * _KIB, 64 * _MIB, "bytes",
        remark=" (in HBase 64 MiB, which all its threads divide among their requests)"))
    buffer_bytes: int = field(default=64 * _MIB, metadata=_row(
        "replication.total.buffer.quota", "the size of the edits that a WAL group holds", _MIB, 4096 * _MIB, "bytes",
        remark=" in memory (in HBase 256 MiB, for all peers of a RegionServer)"))
    # For tables and families that exist neither at the peer cluster nor at the source any more
    # (HBaseInterClusterReplicationEndpoint).
    drop_deleted_tables: bool = field(default=False, metadata=_row(
        "hbase.replication.drop.on.deleted.table", "whether edits of deleted tables are dropped", hbase=True,
        remark=", if the source has them no more either, see [below](#tables-and-families-that-the-peer-cluster-lacks)"))
    drop_deleted_families: bool = field(default=False, metadata=_row(
        "hbase.replication.drop.on.deleted.columnfamily", "whether edits of deleted families are dropped", hbase=True))
    patience_seconds: float = field(default=90.0, metadata=_row(
        "replication.sink.patience", "the time that a silent peer cluster gets", 1000, 86_400_000, "ms",
        remark=": when it has neither acknowledged anything nor worked on a request for this long, the batch ends as "
        "`peer-down`, and the next one tries again. Walferry's own: HBase has no such limit"))
    # fmt: on

    @property
    def requests(self) -> SinkKind:
        """How requests are sent."""
        return self.otherwise if self.sink.makes_files else self.sink

    def chosen(self, sink: SinkKind | None) -> PeerSettings:
        """Return these settings for a run that asks for `sink`, or for no particular sink."""
        return self if sink is None else replace(self, sink=sink, otherwise=self.requests)

    @property
    def least_bytes(self) -> int:
        """How many bytes of WALs it takes to load them as files, if the sink makes files."""
        return self.hfiles_from if self.sink is SinkKind.AUTO else 0

    @classmethod
    def of(cls, settings: Mapping[str, str], peer: Configured) -> PeerSettings:
        """Return a peer's settings: its own, else the connection's `settings`, else the defaults. Raises PeerError."""
        known = [setting.key for setting in (*SHIPPING, *MARKS)]
        ours = sorted(key for key, value in peer.config.items() if key.startswith(PREFIX) and value.strip())
        if unknown := [key for key in ours if key not in known]:
            raise PeerError(
                peer.id,
                f"its configuration has {', '.join(unknown)}, which Walferry does not know{did_you_mean(unknown, known)}",
                f"Remove it, or correct its name; Walferry knows {MANAGED.key} and {', '.join(each.key for each in SHIPPING)}",
            )
        PAUSED.of(peer)  # raises: whether the peer is paused is never guessed
        for setting in _OF_KAFKA:
            setting.of(peer)  # raises: where edits go is never guessed either
        own = {setting.attribute: value for setting in SHIPPING if (value := setting.of(peer)) is not None}
        return cls(**parsed(settings) | own)  # the connection's settings were checked when it was read


SHIPPING = tuple(
    Setting(attribute=each.name, kind=type(each.default), default=each.default, **each.metadata)
    for each in fields(PeerSettings)
    if each.metadata
)

# fmt: off
MANAGED = Setting("walferry.managed", "true", "`peers create`, `peers take-over`",
                  "Walferry may ship this peer. Without it Walferry leaves the peer alone")
PAUSED = Setting("walferry.paused", "", "`peers pause`, `peers resume`",
                 "nothing is shipped until the peer is resumed", kind=bool)
MAX_LAG = Setting("walferry.max_lag", "", "`peers set ID max_lag=900`",
                  "an older edit that is not shipped is [a finding](monitoring.md#findings); RegionServers "
                  "[roll](batches.md#schedules) once in half of it",
                  least=1, most=31_536_000, unit="seconds", kind=float)
PEER_CONN_ID = Setting("walferry.peer_conn_id", "name of an Airflow connection", "`peers set ID peer_conn_id=NAME`",
                       "as whom the peer cluster is talked to: [its principal, keytab, TLS](secured-clusters.md#peer-clusters)")
HFILES_WITH = Setting("walferry.hfiles.with", "id of a peer", "`peers set ID hfiles.with=OTHER`",
                      "batches of that peer make the files of both, see [below](#several-peers-with-the-same-edits)")
LAKE = Setting("walferry.lake", "name of a catalog of Iceberg", "`peers create --lake`",
               "its edits go into [tables of changes](lake.md) of that catalog, and to no HBase cluster")
LAKE_COLUMNS = Setting("walferry.lake.columns", "catalogs of hbase-connectors, as JSON", "`peers create --columns FILE`",
                       "which [typed columns](lake.md#typed-columns) its tables in the lake have beside the bytes",
                       read=parse_mappings)
KAFKA = Setting("walferry.kafka", "hosts and ports of brokers", "`peers create --kafka`",
                "its edits go to [Kafka](kafka.md), and to no HBase cluster", read=brokers)
KAFKA_RECORDS = Setting("walferry.kafka.records", "", "`peers set ID kafka.records=debezium`",
                        "the form of [its records](kafka.md#the-records) in Kafka", kind=Records, default=Records.AVRO)
KAFKA_RULES = Setting("walferry.kafka.rules", "a rules file of HBase's Kafka proxy", "`peers create --rules FILE`",
                      "which edits go into which [topics](kafka.md#topics); without it each table has its own",
                      read=TopicRules.parse)
HANDED_BACK_TO = Setting("walferry.handed-back-to", "id of a peer", "`peers hand-back`",
                         "HBase is to ship that peer instead of this one. It says nothing if there is no such peer")
SUCCEEDS = Setting("walferry.succeeds", "id of a peer", "`peers hand-back`",
                   "at a peer that is not managed: HBase is to ship it instead of that one, which is being handed back")
MARKS = (
    MANAGED, PAUSED, MAX_LAG, PEER_CONN_ID, HFILES_WITH, LAKE, LAKE_COLUMNS, KAFKA, KAFKA_RECORDS, KAFKA_RULES, HANDED_BACK_TO,
    SUCCEEDS,
)

NAMESPACES = Setting("namespaces", "names, split by commas", "`peers create`, `peers set ID namespaces=a,b`",
                     "it gets edits of these, and of `table_cfs`")
BANDWIDTH = Setting("bandwidth", "a number of bytes a second, 0 or empty for no limit", "`peers set ID bandwidth=1000000`",
                    "what may be sent, see [below](#bandwidth)",
                    most=(1 << 63) - 1, unit="bytes a second", kind=int, default=0)
SYSTEM_CATALOG_FILTER = "org.apache.phoenix.replication.SystemCatalogWALEntryFilter"  # the one that filters/phoenix.py knows
CUSTOM_FILTERS = Setting("hbase.replication.source.custom.walentryfilters",  # BaseReplicationEndpoint
                         "none, or Phoenix's SystemCatalogWALEntryFilter", "HBase's shell",
                         "of Phoenix's catalog it then gets what belongs to tenants; a peer with another filter is refused")
# HBase lets these override the peer's cluster key (ReplicationUtils.getPeerClusterConfiguration).
OVER_THE_CLUSTER_KEY = tuple(
    Setting(key, "as in `cluster_key`", "HBase's shell", "HBase puts it over that key, so a peer with another is refused")
    for key in ("hbase.zookeeper.quorum", "hbase.zookeeper.property.clientPort", "zookeeper.znode.parent"))
FIELDS = (
    Setting("cluster_key", "hosts:port:znode", "`peers create`", "where the peer cluster's ZooKeeper is"),
    Setting("state", "DISABLED", "HBase's shell", "an ENABLED peer is refused: its RegionServers ship it themselves"),
    Setting("endpoint_impl", "none, or HBaseInterClusterReplicationEndpoint", "HBase's shell", "a peer with another is refused"),
    Setting("serial", "false", "HBase's shell", "whether edits keep their order when regions move"),
    Setting("replicate_all", "true or false", "`peers set-table-cfs`", "all user tables but excluded ones, or the named ones"),
    NAMESPACES,
    Setting("table_cfs", "tables and families", "`peers create`, `peers set-table-cfs`", "it gets edits of these"),
    Setting("exclude_namespaces", "names", "HBase's shell", "with `replicate_all` it gets none of these"),
    Setting("exclude_table_cfs", "tables and families", "HBase's shell", "with `replicate_all` it gets none of these"),
    BANDWIDTH,
    CUSTOM_FILTERS,
    *OVER_THE_CLUSTER_KEY,
)
# fmt: on
_OF_KAFKA = (KAFKA, KAFKA_RECORDS, KAFKA_RULES)
# by `peers set`
SETTABLE = {
    each.name: each for each in (*SHIPPING, MAX_LAG, PEER_CONN_ID, HFILES_WITH, LAKE_COLUMNS, *_OF_KAFKA, BANDWIDTH, NAMESPACES)
}
_ANYWHERE = (MAX_LAG, NAMESPACES)
# What a sink heeds that is not HBase's: pauses, patience, and sizes.
_HEEDED = ("patience_seconds", "sleep_seconds", "retries_multiplier", "shipment_entries", "shipment_bytes", "buffer_bytes")


def heeded(*, lake: bool = False, kafka: bool = False) -> tuple[Setting, ...]:
    """Return what `peers set` may change of a peer whose edits go to a lake, to Kafka or, by default, to an HBase cluster."""
    if lake:
        return (*_ANYWHERE, LAKE_COLUMNS)
    if kafka:
        return (*_ANYWHERE, BANDWIDTH, *_OF_KAFKA, *(each for each in SHIPPING if each.attribute in _HEEDED))
    return tuple(each for each in SETTABLE.values() if each not in (LAKE_COLUMNS, *_OF_KAFKA))


def parsed(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of PeerSettings for a connection's settings, given by name. Raises ValueError as `Setting.parse` does."""
    return {each.attribute: each.parse(settings[each.name], each.name) for each in SHIPPING if each.name in settings}
