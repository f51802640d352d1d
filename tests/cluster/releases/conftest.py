"""Another release of HBase 2 beside HBase 2.6.1. Tests of this folder are those of other files, between two releases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded.jars import OTHER_RELEASES, JarSet
from embedded.standalone import StandaloneCluster
from tests.conftest import StandalonePair

AS_SOURCE, AS_PEER_CLUSTER = "as the source", "as the peer cluster"


@pytest.fixture(scope="module", params=OTHER_RELEASES, ids=lambda jars: jars.title)
def release(request: pytest.FixtureRequest) -> JarSet:
    """The jars of the other release."""
    jars: JarSet = request.param
    return jars


@pytest.fixture(scope="module")
def other(release: JarSet, cluster_folder: Path, request: pytest.FixtureRequest) -> Iterator[StandaloneCluster]:
    """A cluster of the other release, with the settings CONF of the test's file."""
    folder = cluster_folder / request.module.__name__ / release.name
    with StandaloneCluster(folder, request.module.CONF, name=release.name, jars=release) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=[AS_SOURCE, AS_PEER_CLUSTER])
def role(request: pytest.FixtureRequest) -> str:
    """What the cluster of the other release is."""
    role: str = request.param
    return role


@pytest.fixture(scope="module")
def standalone_pair(standalone_pair: StandalonePair, other: StandaloneCluster, role: str) -> StandalonePair:
    """The session's pair, with the other release in the place of one."""
    return standalone_pair._replace(**{"source" if role == AS_SOURCE else "peer_cluster": other})
