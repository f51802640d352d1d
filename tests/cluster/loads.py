"""Helpers for loads: their tables, loads that die or come late, and the remains of loads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from kazoo.client import KazooClient

from embedded.client import GLOBAL, JavaClient
from embedded.hbase import ClusterAddress
from tests.cluster.test_hfiles import FAMILIES, PEER_CLUSTER_SPLITS, SOURCE_SPLITS
from walferry.base.zk.client import children
from walferry.hbase.files.systems import list_entries
from walferry.hbase.rpc import bulk_load
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session, open_session
from walferry.shipping.bulkload import driver, loading

CALLS = ("prepare", "load", "cleanup")  # functions of bulk_load


def create_keeping_table(source: JavaClient, peer_cluster: JavaClient, table: str, families: Sequence[str] = FAMILIES) -> None:
    """Create a table that keeps all cells, with different regions on the two sides."""
    for client, splits in ((source, SOURCE_SPLITS), (peer_cluster, PEER_CLUSTER_SPLITS)):
        client.create_table(table, dict.fromkeys(families, GLOBAL), splits, versions=1_000)
        client.switch_compaction(table, False)
        for family in families:
            client.alter_family(table, family, {"KEEP_DELETED_CELLS": "TRUE"})


def records_left(source: SourceCluster, peer: str) -> list[str]:
    """Return the znodes below <root>/loads of a peer."""
    with open_session(source) as session:
        return children(session.zk, session.own.loads(peer)) or []


def folders_left(peer_cluster: ClusterAddress, *tables: str) -> dict[str, list[str]]:
    """Return the peer cluster's folders for files of these tables that are to be loaded, with their content."""
    staging = f"{peer_cluster.wal_root}/staging"
    found = [folder.name for folder in list_entries(staging) if any(f"__{table}__" in folder.name for table in tables)]
    return {name: [entry.name for entry in list_entries(f"{staging}/{name}")] for name in found}


class Killed(BaseException):
    """A run's process is killed: nothing in the process goes on after that."""


class Mortal:
    """A run in this process that can die. After that it neither reaches ZooKeeper nor calls for a load."""

    def __init__(self) -> None:
        self._clients: list[KazooClient] = []
        self._lock = threading.Lock()
        self.dead = False

    def die(self) -> None:
        """End all sessions of the run. Raises Killed."""
        with self._lock:
            if not self.dead:
                self.dead = True
                for zk in self._clients:
                    zk.stop()
        raise Killed

    def lose_sessions(self) -> None:
        """End the driver's sessions, and let its tasks live on."""
        for zk in self._clients:
            zk.stop()

    @contextmanager
    def open_session(self, source: SourceCluster) -> Iterator[Session]:
        if self.dead:
            raise Killed
        with open_session(source) as session:
            self._clients.append(session.zk)
            yield session

    def while_alive(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: Any, **options: Any) -> Any:
            if self.dead:
                raise Killed
            return call(*arguments, **options)

        return guarded


@contextmanager
def mortal_run(deaths: Callable[[Mortal, pytest.MonkeyPatch], None]) -> Iterator[Mortal]:
    """Yield a run that may die where `deaths` lets it."""
    mortal = Mortal()
    with pytest.MonkeyPatch.context() as patch:
        for module in (driver, loading):
            patch.setattr(module, "open_session", mortal.open_session)
        for name in CALLS:
            patch.setattr(bulk_load, name, mortal.while_alive(getattr(bulk_load, name)))
        deaths(mortal, patch)
        with suppress(Killed):
            yield mortal


def die_before(module: object, name: str, nth: int = 1) -> Callable[[Mortal, pytest.MonkeyPatch], None]:
    """Return a death at the nth call of a function, before the call is carried out."""
    return _die(module, name, nth, after=False)


def die_after(module: object, name: str, nth: int = 1) -> Callable[[Mortal, pytest.MonkeyPatch], None]:
    """Return a death once the nth call of a function is carried out."""
    return _die(module, name, nth, after=True)


def _die(module: object, name: str, nth: int, *, after: bool) -> Callable[[Mortal, pytest.MonkeyPatch], None]:
    def patch_it(mortal: Mortal, patch: pytest.MonkeyPatch) -> None:
        real, lock, calls = getattr(module, name), threading.Lock(), iter(range(1, 1_000_000))

        def counted(*arguments: Any, **options: Any) -> Any:
            with lock:
                now = next(calls) == nth
            if now and not after:
                mortal.die()
            result = real(*arguments, **options)
            if now:
                mortal.die()
            return result

        patch.setattr(module, name, counted)

    return patch_it
