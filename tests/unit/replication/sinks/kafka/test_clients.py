"""The settings of Kafka's clients come from the peer and from a file that its source's connection names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from walferry.replication.peers.reading import DISABLED, Peer
from walferry.replication.sinks.kafka.clients import Heard, settings_of
from walferry.replication.source.cluster import SourceCluster, SourceError

PEER = Peer("events", "zk:2181:/x", DISABLED, {"walferry.kafka": "k1:9092,k2:9092"})


def source(path: Path | None, servers: str = "k1:9092,k2:9092") -> SourceCluster:
    return SourceCluster(quorum="zk:2181", wal_root="file:///x", kafka_clients={servers: str(path)} if path else {})


def test_a_file_adds_the_login(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("# a comment\n\n sasl.password = a=b \nsecurity.protocol=SASL_SSL\n")
    found = settings_of(PEER, source(file), Heard())
    assert (found["sasl.password"], found["security.protocol"], found["bootstrap.servers"]) == ("a=b", "SASL_SSL", PEER.kafka)


def test_a_password_is_sent_only_to_the_brokers_that_it_is_for(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("sasl.password=secret\n")
    heard = Heard()
    assert "sasl.password" not in settings_of(PEER, source(file, "k1:9092"), heard)
    assert heard.text == "kafka_clients of the source's connection has no file for k1:9092,k2:9092"
    assert "sasl.password" not in settings_of(PEER, source(None), Heard())


def test_brokers_are_found_in_any_order_and_spelling(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("sasl.password=secret\n")
    peer = replace(PEER, config={"walferry.kafka": "K2:9092, k1:9092"})
    assert "sasl.password" in settings_of(peer, source(file), Heard())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("acks=0\n", "line 1 of .* sets acks, which Walferry sets itself"),
        ("# x\nplugin.library.paths=/tmp/evil.so\n", "line 2 of .* sets plugin.library.paths"),
        ("root:x:0:0:secret\n", "line 1 of .* is not of the form name=value"),
        ("#" * 70_000, "has more than 65,536 bytes"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_not_shown(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text(text)
    with pytest.raises(SourceError, match=why) as refused:
        settings_of(PEER, source(file), Heard())
    assert "secret" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nowhere cannot be read: FileNotFoundError"):
        settings_of(PEER, source(tmp_path / "nowhere"), Heard())
