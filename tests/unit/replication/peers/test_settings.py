"""HBase's settings of replication: from the connection and from the peer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields

import pytest

from tests.unit.replication.peers.settings_page import PAGE, documented
from walferry.hbase.errors import PeerError
from walferry.replication.peers.reading import Peer
from walferry.replication.peers.settings import FIELDS, MARKS, PREFIX, SETTABLE, SHIPPING, PeerSettings, SinkHooks, SinkKind
from walferry.replication.source.cluster import SourceCluster, SourceError
from walferry.replication.source.connection import from_connection

KEYS = [setting.name for setting in SHIPPING]
HBASES_KEYS = [setting.name for setting in SHIPPING if setting.hbase]
MANAGED = {"walferry.managed": "true"}


def peer(config: Mapping[str, str]) -> Peer:
    return Peer("2", "zk1:2181:/hbase", "DISABLED", {**MANAGED, **config})


def source(**extra: object) -> SourceCluster:
    return from_connection("zk1", None, {"wal_root": "hdfs://nn/hbase", **extra})


def test_without_any_setting_there_are_the_defaults():
    assert PeerSettings.of(source().replication, peer({})) == PeerSettings()


def test_the_peer_wins_over_the_connection():
    at = source(**{"replication.source.ratio": 0.2, "replication.source.nb.capacity": 100})
    settings = PeerSettings.of(at.replication, peer({"walferry.replication.source.ratio": "1"}))
    assert (settings.ratio, settings.shipment_entries) == (1.0, 100)


def test_settings_survive_the_way_to_the_job():
    at = source(**{"replication.source.ratio": "0.2"})
    again = SourceCluster.from_json(at.to_json())
    assert again == at
    assert json.loads(at.to_json())["replication"] == {"replication.source.ratio": "0.2"}


def test_times_are_milliseconds_as_in_hbase():
    config = {"walferry.replication.source.sleepforretries": "250", "walferry.replication.source.shipedits.timeout": "90000"}
    settings = PeerSettings.of({}, peer({**config, "walferry.replication.sink.patience": "1500"}))
    assert (settings.sleep_seconds, settings.call_timeout_seconds, settings.patience_seconds) == (0.25, 90.0, 1.5)


VALUES = {
    "sink": ("sink", " Direct", SinkKind.DIRECT),
    "sink_hooks": ("sink_hooks", " NONE ", SinkHooks.NONE),
    "hfiles.from": ("hfiles_from", "1000000", 1_000_000),
    "replication.source.maxretriesmultiplier": ("retries_multiplier", "5", 5),
    "replication.source.sleepforretries": ("sleep_seconds", "2000", 2.0),
    "replication.sink.tries": ("subset_tries", "4", 4),
    "replication.source.ratio": ("ratio", "0.25", 0.25),
    "replication.bad.sink.threshold": ("bad_sink_threshold", "0", 0),
    "hbase.replication.source.maxthreads": ("senders", "3", 3),
    "replication.source.size.capacity": ("shipment_bytes", "65536", 65536),
    "replication.source.nb.capacity": ("shipment_entries", "10", 10),
    "replication.total.buffer.quota": ("buffer_bytes", "1048576", 1 << 20),
    "replication.source.shipedits.timeout": ("call_timeout_seconds", "1000", 1.0),
    "replication.sink.patience": ("patience_seconds", "60000", 60.0),
    "hbase.replication.drop.on.deleted.table": ("drop_deleted_tables", "true", True),
    "hbase.replication.drop.on.deleted.columnfamily": ("drop_deleted_families", " TRUE ", True),
}
CHOICES = ("sink", "sink_hooks")
NUMBERS = [key for key in KEYS if key not in (*HBASES_KEYS, *CHOICES)]


@pytest.mark.parametrize("key", KEYS)
def test_each_setting_is_one_field(key):
    field, text, value = VALUES[key]
    assert getattr(PeerSettings.of({}, peer({PREFIX + key: text})), field) == value
    assert getattr(PeerSettings.of(source(**{key: text}).replication, peer({})), field) == value


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("text", ["many", "-1", "nan", "1e99", "inf", "True"])
def test_a_wrong_value_is_refused_by_key_value_and_what_it_should_be(key, text):
    with pytest.raises(PeerError) as error:
        PeerSettings.of({}, peer({PREFIX + key: text}))
    assert f"peer 2: in its configuration, walferry.{key} is {text!r}; it must be " in str(error.value)
    assert " number from " in str(error.value)
    with pytest.raises(SourceError, match="connection 'hbase_source': extra's ") as error:
        source(**{key: text})
    assert f"{key} is {text!r}; it must be " in str(error.value)


@pytest.mark.parametrize("text", ["quick", "1", "SinkKind.DIRECT"])
def test_a_sink_is_one_of_those_that_there_are(text):
    with pytest.raises(
        PeerError, match=r"walferry\.sink is .*; it must be how edits are sent to the peer cluster: direct or replicate"
    ):
        PeerSettings.of({}, peer({"walferry.sink": text}))
    with pytest.raises(SourceError, match="direct or replicate"):
        source(sink=text)


@pytest.mark.parametrize("key", HBASES_KEYS)
@pytest.mark.parametrize("text", ["yes", "1", "truely"])
def test_a_setting_that_is_on_or_off_takes_true_and_false_only(key, text):
    for form in (PREFIX + key, key):
        with pytest.raises(PeerError) as error:
            PeerSettings.of({}, peer({form: text}))
        assert f"peer 2: in its configuration, {form} is {text!r}; it must be whether " in str(error.value)
        assert ": true or false" in str(error.value)
    with pytest.raises(SourceError, match="true or false"):
        source(**{key: text})


@pytest.mark.parametrize("key", HBASES_KEYS)
def test_what_is_dropped_may_be_set_in_the_peer_as_for_hbase(key):
    field, _, _ = VALUES[key]
    at = source(**{key: False})
    assert getattr(PeerSettings.of(at.replication, peer({})), field) is False
    assert getattr(PeerSettings.of(at.replication, peer({key: "true"})), field) is True
    assert getattr(PeerSettings.of(source(**{key: True}).replication, peer({key: "true", PREFIX + key: "false"})), field) is False


@pytest.mark.parametrize("key", KEYS)
def test_an_empty_value_of_the_connection_is_wrong(key):
    with pytest.raises(SourceError, match="is ''; it must be "):
        source(**{key: ""})


def test_true_is_not_a_number():
    with pytest.raises(SourceError, match=r"nb\.capacity is 'True'"):
        source(**{"replication.source.nb.capacity": True})


def test_a_setting_of_the_peer_that_nobody_knows_is_refused():
    with pytest.raises(PeerError, match=r"peer 2: its configuration has walferry\.replication\.source\.ration, which"):
        PeerSettings.of({}, peer({"walferry.replication.source.ration": "0.2"}))


def test_hbase_s_own_settings_in_the_peer_are_not_ours():
    assert PeerSettings.of({}, peer({"replication.source.ratio": "nonsense", "hbase.anything": "1"})) == PeerSettings()


def test_a_setting_of_the_connection_that_nobody_knows_is_refused():
    with pytest.raises(SourceError, match=r"extra has replication\.source\.ration, which Walferry does not know"):
        source(**{"replication.source.ration": 1})


REQUESTS = [SinkKind.DIRECT, SinkKind.REPLICATE]
FILES = [SinkKind.HFILES, SinkKind.AUTO]


@pytest.mark.parametrize("kind", SinkKind)
def test_only_two_kinds_of_sinks_make_files(kind):
    assert kind.makes_files == (kind in FILES)


@pytest.mark.parametrize("kind", REQUESTS)
def test_what_is_sent_by_requests_goes_as_the_peer_says(kind):
    assert PeerSettings(sink=kind).requests == kind
    assert PeerSettings(sink=kind).chosen(None) == PeerSettings(sink=kind)


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("own", REQUESTS)
def test_a_run_that_makes_files_sends_the_rest_as_the_peer_says(kind, own):
    chosen = PeerSettings(sink=own).chosen(kind)
    assert (chosen.sink, chosen.requests) == (kind, own)
    again = chosen.chosen(SinkKind.HFILES)
    assert (again.sink, again.requests) == (SinkKind.HFILES, own)


@pytest.mark.parametrize("kind", FILES)
def test_what_a_peer_that_makes_files_sends_otherwise_goes_directly(kind):
    assert PeerSettings.of({}, peer({"walferry.sink": kind})).requests == SinkKind.DIRECT


@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("own", SinkKind)
def test_a_run_may_ask_for_requests(kind, own):
    chosen = PeerSettings(sink=own).chosen(kind)
    assert (chosen.sink, chosen.requests) == (kind, kind)


def test_only_auto_waits_for_a_large_backlog():
    assert PeerSettings(sink=SinkKind.AUTO, hfiles_from=5).least_bytes == 5
    assert PeerSettings(sink=SinkKind.AUTO).least_bytes == 256 << 20
    assert PeerSettings(sink=SinkKind.HFILES, hfiles_from=5).least_bytes == 0


def test_what_marks_a_peer_is_not_a_setting():
    marks = {"walferry.paused": "true", "walferry.handed-back-to": "3"}
    assert PeerSettings.of({}, peer(marks)) == PeerSettings()


@pytest.mark.parametrize("text", ["yes", "1", "paused"])
def test_whether_a_peer_is_paused_is_never_guessed(text):
    with pytest.raises(PeerError, match=rf"walferry\.paused is '{text}'; it must be true or false"):
        PeerSettings.of({}, peer({"walferry.paused": text}))


def test_an_empty_value_of_the_peer_is_none():
    """HBase's Master can empty a key, but not remove it."""
    at = source(**{"replication.source.ratio": 0.2})
    assert PeerSettings.of(at.replication, peer({"walferry.replication.source.ratio": "", "walferry.sink": " "})).ratio == 0.2


def test_the_documentation_has_each_setting_with_its_default_and_its_values():
    assert PAGE.read_text() == documented(PAGE.read_text()), "run `python -m tests.unit.replication.peers.settings_page`"


WITH_LIMITS = [setting for setting in SHIPPING if not setting.choices]


@pytest.mark.parametrize("setting", WITH_LIMITS, ids=lambda setting: setting.name)
def test_an_error_names_the_exact_limits(setting):
    with pytest.raises(PeerError, match=re.escape(f"from {_exact(setting.least)} to {_exact(setting.most)}")):
        PeerSettings.of({}, peer({setting.key: "-1"}))


def test_the_documentation_has_each_mark_of_a_peer():
    assert {mark.key for mark in MARKS} <= set(re.findall(r"(?m)^\| `(walferry\.[\w.-]+)` \|", PAGE.read_text()))


def test_each_row_of_the_table_is_of_an_attribute():
    """Except for HBase's own settings in a peer's configuration."""
    assert {setting.attribute for setting in SHIPPING} == {each.name for each in fields(PeerSettings)} - {"otherwise"}
    assert [mark.name for mark in MARKS if not hasattr(Peer, re.sub("[-.]", "_", mark.name))] == []
    own = {each.name for each in fields(Peer)} - {"id", "config", "not_understood"}
    assert {field.key for field in FIELDS if "." not in field.key} == own
    rows = [setting.key for setting in (*SHIPPING, *MARKS, *FIELDS)]
    assert len(set(rows)) == len(rows)
    assert {setting.key for setting in SETTABLE.values()} <= set(rows)


def test_a_misspelt_setting_of_the_peer_is_told_with_the_nearest_name():
    with pytest.raises(PeerError, match=r"which Walferry does not know \(did you mean walferry\.replication\.source\.ratio\?\)"):
        PeerSettings.of({}, peer({"walferry.replication.source.ration": "0.2"}))


def _exact(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)
