"""Which peers may be shipped."""

import re
from dataclasses import replace

import pytest

from walferry.hbase.errors import (
    CustomEndpointPeer,
    CustomFilterPeer,
    EnabledPeer,
    PausedPeer,
    PeerError,
    PeerNotUnderstood,
    UnmanagedPeer,
)
from walferry.replication.peers.reading import Peer, check_ours, check_shippable
from walferry.replication.peers.settings import CUSTOM_FILTERS, MAX_LAG

PEER = Peer(id="p", cluster_key="h1,h2:2181:/hbase", state="DISABLED", config={"walferry.managed": "true"})


def test_a_disabled_managed_peer_may_be_shipped() -> None:
    check_shippable(PEER)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"config": {}}, UnmanagedPeer, "walferry.managed=true"),
        ({"config": {"walferry.managed": "false"}}, UnmanagedPeer, "walferry.managed=true"),
        ({"config": {}, "state": "ENABLED"}, UnmanagedPeer, "Nothing of it is touched"),
        ({"state": "ENABLED"}, EnabledPeer, "Disable it"),
        ({"endpoint_impl": "org.example.MyEndpoint"}, CustomEndpointPeer, "org.example.MyEndpoint"),
        ({"config": {**PEER.config, CUSTOM_FILTERS.key: "org.example.NoPii"}}, CustomFilterPeer, "org.example.NoPii"),
        ({"not_understood": ("it has /x/sync-rep-state",)}, PeerNotUnderstood, "/x/sync-rep-state"),
        ({"config": {**PEER.config, "hbase.zookeeper.quorum": "h3"}}, PeerNotUnderstood, "hbase.zookeeper.quorum = h3"),
        ({"config": {**PEER.config, "zookeeper.znode.parent": "/b"}}, PeerNotUnderstood, "zookeeper.znode.parent = /b"),
        ({"cluster_key": "nonsense"}, PeerError, "nonsense"),
    ],
)
def test_any_other_peer_is_refused_with_what_to_do(change: dict[str, object], error: type[PeerError], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)) as refused:
        check_shippable(replace(PEER, **change))  # type: ignore[arg-type]
    assert refused.value.peer_id == "p"
    assert "peer p: " in str(refused.value)


def test_a_configuration_that_repeats_the_cluster_key_changes_nothing() -> None:
    check_shippable(replace(PEER, config={**PEER.config, "hbase.zookeeper.quorum": "h1,h2", "zookeeper.znode.parent": "/hbase"}))


@pytest.mark.parametrize("text", ["x\nFAILED \x1b[31m", "x" * 500_000, "x\u202e\u2028"])
@pytest.mark.parametrize("change", ["cluster_key", "endpoint_impl", "config", "id"])
def test_a_refusal_is_one_short_line_whatever_the_peer_says(change: str, text: str) -> None:
    value = {"walferry.managed": "true", CUSTOM_FILTERS.key: text} if change == "config" else text
    peer = replace(PEER, state="DISABLED" if change != "id" else "ENABLED", **{change: value})  # type: ignore[arg-type]
    with pytest.raises(PeerError) as refused:
        check_shippable(peer)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 3000


def test_hbase_s_own_endpoint_named_outright_is_no_custom_one() -> None:
    check_shippable(
        replace(PEER, endpoint_impl="org.apache.hadoop.hbase.replication.regionserver.HBaseInterClusterReplicationEndpoint")
    )


def test_a_paused_peer_is_ours_and_is_not_shipped_until_it_is_resumed() -> None:
    paused = replace(PEER, config={**PEER.config, "walferry.paused": "True"})
    check_ours(paused)
    with pytest.raises(PausedPeer, match=r"^peer p: it is paused .*`walferry peers resume p`$"):
        check_shippable(paused)
    check_shippable(replace(PEER, config={**PEER.config, "walferry.paused": "false"}))
    with pytest.raises(UnmanagedPeer):
        check_shippable(replace(PEER, config={"walferry.paused": "true"}))


@pytest.mark.parametrize(("text", "seconds"), [("", None), (" ", None), ("1", 1.0), (" 90.5 ", 90.5), ("31536000", 31_536_000.0)])
def test_a_peer_says_for_how_long_its_oldest_edit_may_wait(text: str, seconds: float | None) -> None:
    assert replace(PEER, config={MAX_LAG.key: text}).max_lag == seconds
    assert PEER.max_lag is None


@pytest.mark.parametrize("text", ["0", "-5", "soon", "nan", "inf", "31536001", "5m", "x" * 1000])
def test_a_limit_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(PeerError, match=r"walferry\.max_lag is '.{1,100}'; it must be a number of seconds from 1 to 31536000"):
        _ = replace(PEER, config={MAX_LAG.key: text}).max_lag
