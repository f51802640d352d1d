"""Secured clusters for tests: a realm for the source's side and one for the peer clusters', and clusters with Kerberos, TLS, and
both.

A cluster is a JVM. The source runs side by side with one peer cluster at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from embedded.certificates import Authority
from embedded.client import ClientJvm, JavaClient
from embedded.kerberos import Kerberos
from embedded.secured import principals
from embedded.secured_site import EAST, PEER_CLUSTERS, USER, WEST, SecuredSite, protected
from tests.secured.peers import CONN_ID, MANAGED, Pair, peer_that_the_master_knows

USERS = (USER, "stranger")


@pytest.fixture(scope="session")
def kerberos(cluster_folder: Path) -> Iterator[Kerberos]:
    """The KDCs of both realms, which know the same names. The realms do not trust each other."""
    names = principals(*USERS)
    with Kerberos(cluster_folder / "kdc", {EAST: names, WEST: names}) as kerberos, pytest.MonkeyPatch.context() as patch:
        for name, value in kerberos.environment.items():
            patch.setenv(name, value)
        yield kerberos


@pytest.fixture(scope="session")
def authority(cluster_folder: Path) -> Authority:
    return Authority(cluster_folder / "authority")


@pytest.fixture(scope="session")
def source_site(cluster_folder: Path, kerberos: Kerberos, authority: Authority) -> Iterator[SecuredSite]:
    """The source: Kerberos in EAST; its servers offer authentication and integrity."""
    make = protected("authentication", "integrity", realm=EAST)
    site = make(cluster_folder / "source-site", kerberos, authority, "source-site")
    with site.cluster:
        yield site


@pytest.fixture(scope="session", params=list(PEER_CLUSTERS))
def peer_site(
    request: pytest.FixtureRequest, cluster_folder: Path, kerberos: Kerberos, authority: Authority
) -> Iterator[SecuredSite]:
    """A peer cluster of each kind, one after the other: Kerberos at each protection, TLS with certificates of clients, and
    both."""
    name = f"peer-cluster-{request.param}"
    site = PEER_CLUSTERS[request.param](cluster_folder / name, kerberos, authority, name)
    with site.cluster:
        yield site


@pytest.fixture(scope="session")
def secured_java(cluster_folder: Path, kerberos: Kerberos) -> Iterator[Callable[[SecuredSite], JavaClient]]:
    """HBase's own Java client of a site, logged in as HBase. A JVM can only look for servers of one realm."""
    with ExitStack() as jvms:
        clients: dict[str | None, ClientJvm] = {}

        def client(site: SecuredSite) -> JavaClient:
            if site.realm not in clients:
                options = kerberos.jvm_options_in(site.realm) if site.realm else ()
                clients[site.realm] = jvms.enter_context(ClientJvm(cluster_folder / f"client-{site.realm}", options=options))
            return clients[site.realm].client(site.cluster.address)

        yield client


@pytest.fixture
def pair(source_site: SecuredSite, peer_site: SecuredSite, secured_java: Callable[[SecuredSite], JavaClient]) -> Iterator[Pair]:
    source, peer_cluster = secured_java(source_site), peer_site.cluster.address
    names_it = {**MANAGED, "walferry.peer_conn_id": CONN_ID}
    with peer_that_the_master_knows(source_site, source, peer_cluster, names_it) as (peer, key):
        yield Pair(source, secured_java(peer_site), peer, peer_site, source_site, key)


@pytest.fixture
def files_of_all() -> Iterator[None]:
    """HBase loads only files that the principal's user may read and write (HStore.assertBulkLoadHFileOk). On HDFS they are that
    user's own; on the local files of these clusters they belong to whoever runs the tests."""
    before = os.umask(0)
    yield
    os.umask(before)
