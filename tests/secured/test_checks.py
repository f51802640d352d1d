"""The findings of a check of connections at a real cluster with Kerberos."""

from __future__ import annotations

import re

from embedded.kerberos import Kerberos
from embedded.secured_site import EAST, SecuredSite
from tests.secured.logins import login
from walferry.admin.diagnosis.peers import peer_cluster_access
from walferry.admin.diagnosis.source import check
from walferry.base.security.login import Login
from walferry.replication.peers.reading import DISABLED, Peer
from walferry.replication.source.cluster import SourceCluster


def source_at(site: SecuredSite, login: Login) -> SourceCluster:
    return SourceCluster(quorum=site.cluster.address.quorum, wal_root=site.cluster.address.wal_root, login=login)


def found(site: SecuredSite, login: Login) -> dict[str, tuple[str, str]]:
    """Return the findings about the source itself; it may have peers of other tests, or none yet."""
    found = {each.what: (str(each.severity), each.line) for each in check(source_at(site, login))}
    return {what: reported for what, reported in found.items() if not re.match("peer|cluster|replication|dead|orphaned", what)}


def test_what_works_is_told_from_the_keytab_to_the_master(source_site: SecuredSite) -> None:
    reported = found(source_site, login(source_site))
    assert {what for what, (state, _) in reported.items() if state != "well"} == set()
    assert ": version 1, aes128-cts-hmac-sha1-96" in reported["source: keytab"][1]
    assert f"the KDC has given one for walferry@{EAST}" in reported["source: ticket"][1]
    assert "1 of 1 answer, Kerberos with integrity; HBase 2." in reported["RegionServers"][1]
    assert re.search(r"is active and knows \d+ peers?", reported["Master"][1])


def test_a_keytab_of_somebody_else_is_told_once(source_site: SecuredSite, kerberos: Kerberos) -> None:
    stranger = str(kerberos.keytab(f"stranger@{EAST}"))
    reported = found(source_site, login(source_site, keytab=stranger, zk_auth="none"))
    wrong = {what for what, (state, _) in reported.items() if state == "wrong"}
    assert wrong - {"own root"} == {"source: keytab"}  # the other tests' root does not belong to an unnamed user
    assert reported["ZooKeeper"][0] == reported["WAL folders"][0] == "well"
    assert f"It holds keys of: stranger@{EAST}" in reported["source: keytab"][1]
    assert f"holds no key of walferry@{EAST}" in reported["source: keytab"][1]
    reported = found(source_site, login(source_site, keytab=stranger))
    assert reported.keys() == {"source: keytab"}


def test_a_protection_that_the_servers_do_not_offer_is_told(source_site: SecuredSite) -> None:
    reported = found(source_site, login(source_site, protection="privacy"))
    assert reported["source: ticket"][0] == "well"
    assert reported["RegionServers"][0] == reported["Master"][0] == "wrong"
    assert "privacy" in reported["Master"][1]


def test_without_kerberos_the_servers_say_what_is_missing(source_site: SecuredSite) -> None:
    reported = found(source_site, Login(user="walferry"))
    assert "source: ticket" not in reported
    assert "Give its connection a principal and a keytab" in reported["Master"][1]


def test_a_peer_cluster_that_accepts_shipments_is_told(source_site: SecuredSite) -> None:
    peer = Peer("p", source_site.cluster.address.cluster_key, DISABLED, {})
    reported = {
        each.what: (str(each.severity), each.text)
        for each in peer_cluster_access(source_at(source_site, login(source_site)), peer)
    }
    looks = ("keytab", "ticket", "ZooKeeper", "RegionServers", "rights", "sink")
    assert {what: reported[f"cluster of peer p: {what}"][0] for what in looks} == dict.fromkeys(looks, "well")
    assert reported["cluster of peer p: rights"][1].endswith("accepts shipments")
