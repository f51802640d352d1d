"""Peers in files, as HBase's FSReplicationPeerStorage writes them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.peer_files import PeerFolders, rotating
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase import peer_files
from walferry.hbase.errors import PeerFileError
from walferry.hbase.peer_files import PeerFiles, disabled_since, ids_in, parse_rotating, read_peer_files
from walferry.hbase.values import decode_peer


@pytest.fixture
def peers(tmp_path: Path) -> PeerFolders:
    return PeerFolders(tmp_path / "peers")


def _read(peers: PeerFolders, peer_id: str = "p") -> PeerFiles:
    found = read_peer_files(peers.url, peer_id)
    assert found is not None
    return found


def _key(found: PeerFiles) -> str:
    return decode_peer(found.config, found.folder).clusterkey


@given(st.binary(max_size=300), st.integers(0, 2**63 - 1), st.binary(max_size=9))
def test_what_is_written_is_read_whatever_follows_it(data: bytes, timestamp: int, rest: bytes) -> None:
    assert parse_rotating(rotating(data, timestamp) + rest, "f") == pb.RotateFileData(timestamp=timestamp, data=data)


@given(st.binary(max_size=60), st.data())
def test_a_file_that_ends_too_early_does_not_count(data: bytes, draw: st.DataObject) -> None:
    whole = rotating(data, 1)
    assert parse_rotating(whole[: draw.draw(st.integers(0, len(whole) - 1))], "f") is None


@given(st.binary(max_size=60), st.data())
def test_a_changed_byte_is_never_taken_for_a_peer(data: bytes, draw: st.DataObject) -> None:
    whole = bytearray(rotating(data, 1))
    at = draw.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= draw.draw(st.integers(1, 255))
    with suppress(PeerFileError):
        assert parse_rotating(bytes(whole), "f") is None


@given(st.binary(max_size=200))
def test_no_bytes_break_the_parser(data: bytes) -> None:
    with suppress(PeerFileError):
        assert parse_rotating(data, "f") is None


@pytest.mark.parametrize("length", [0, -1, (16 << 20) + 1])
def test_a_length_that_hbase_would_not_take_is_an_error(length: int) -> None:
    with pytest.raises(PeerFileError, match=f"length is {length}"):
        parse_rotating(length.to_bytes(4, "big", signed=True) + b"x" * 20, "f")


def test_the_newer_configuration_counts_and_an_unfinished_one_does_not(peers: PeerFolders) -> None:
    """HBase writes over the older file, and may be killed before it has deleted the other one, or while it writes."""
    peers.add_peer("p", clusterkey="old:2181:/h")
    old = peers.config_file("p")
    before = old.read_bytes()
    peers.set_config("p", clusterkey="new:2181:/h")
    assert peers.config_file("p") != old
    assert _key(_read(peers)) == "new:2181:/h"
    old.write_bytes(before)
    assert _key(_read(peers)) == "new:2181:/h"
    new = peers.root / "p" / "peer_config-1"
    new.write_bytes(new.read_bytes()[:-1])
    assert _key(_read(peers)) == "old:2181:/h"


def test_of_equal_times_the_first_file_counts(peers: PeerFolders) -> None:
    peers.add_peer("p")
    for name, data in (("peer_config-1", b"second"), ("peer_config-0", b"first")):
        (peers.root / "p" / name).write_bytes(rotating(data, 7))
    assert _read(peers).config == b"first"


def test_times_are_compared_as_java_compares_them(peers: PeerFolders) -> None:
    peers.add_peer("p")
    for name, data, timestamp in (("peer_config-0", b"negative", 2**64 - 1), ("peer_config-1", b"positive", 1)):
        (peers.root / "p" / name).write_bytes(rotating(data, timestamp))
    assert _read(peers).config == b"positive"


def test_a_damaged_file_beside_a_good_one_is_an_error_as_in_hbase(peers: PeerFolders) -> None:
    peers.add_peer("p")
    (peers.root / "p" / "peer_config-1").write_bytes(rotating(b"x", 1)[:-1] + b"\0")
    with pytest.raises(PeerFileError, match=r"file file://.*/p/peer_config-1: its CRC is .*HBase cannot read"):
        read_peer_files(peers.url, "p")


def test_the_file_disabled_is_the_state_and_its_time_names_the_period(peers: PeerFolders) -> None:
    peers.add_peer("p")
    first = _read(peers).disabled_ms
    assert first is not None
    peers.set_config("p", {"walferry.paused": "true"})
    assert _read(peers).disabled_ms == first == disabled_since(peers.url, "p")
    peers.set_state("p", "ENABLED")
    assert _read(peers).disabled_ms is disabled_since(peers.url, "p") is None
    peers.set_state("p", "DISABLED")
    assert (disabled_since(peers.url, "p") or 0) >= first  # the clock of files ticks every few ms
    os.utime(peers.root / "p" / "disabled", ns=(1_700_000_000_123_000_000,) * 2)
    assert disabled_since(peers.url, "p") == 1_700_000_000_123


def test_a_folder_without_a_valid_configuration_is_not_a_peer(peers: PeerFolders) -> None:
    """HBase adds the configuration last, and deletes it first."""
    peers.add_peer("p")
    (peers.root / "adding").mkdir()
    (peers.root / "adding" / "disabled").touch()
    (peers.root / "killed").mkdir()
    (peers.root / "killed" / "peer_config-0").write_bytes(b"\0\0")
    (peers.root / "a-file").touch()
    assert ids_in(peers.url) == ["adding", "killed", "p"]
    assert [read_peer_files(peers.url, each) is not None for each in ("adding", "killed", "p", "nobody")] == [
        False, False, True, False,
    ]  # fmt: skip


def test_a_missing_folder_is_not_an_empty_one(peers: PeerFolders) -> None:
    assert ids_in(peers.url) is None
    peers.root.mkdir()
    assert ids_in(peers.url) == []


def test_unknown_files_are_named_but_hadoop_s_checksums_are_not(peers: PeerFolders) -> None:
    peers.add_peer("p")
    for name in (".peer_config-0.crc", ".disabled.crc", "sync-rep-state-0", "new_sync-rep-state-0"):
        (peers.root / "p" / name).touch()
    assert _read(peers).odd == ("new_sync-rep-state-0", "sync-rep-state-0")


def test_a_configuration_that_rotates_under_the_reader_is_read_again(peers: PeerFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first file is looked for before it is there, and the second one after it is gone."""
    peers.add_peer("p", clusterkey="one:2181:/h")
    peers.set_config("p", clusterkey="two:2181:/h")
    read, looks = peer_files._rotating, []

    def rotates(url: str) -> pb.RotateFileData | None:
        looks.append(url)
        found = read(url)
        if len(looks) == 1:
            peers.set_config("p", clusterkey="three:2181:/h")
        return found

    monkeypatch.setattr(peer_files, "_rotating", rotates)
    assert _key(_read(peers)) == "three:2181:/h"
    assert len(looks) == 4
