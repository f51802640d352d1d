"""A watcher begins a new session when its own is over. The tests of the streams show what wakes it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionClosedError
from kazoo.protocol.states import KazooState

from embedded.zookeeper import ZooKeeperServer
from tests.zk.hbase_znodes import HBaseZNodes
from tests.zk.secured_fixtures import Secured
from tests.zk.test_logins import connected_as, proxied
from walferry.base.security.login import UNSECURED
from walferry.base.zk.client import Watch, children, read
from walferry.base.zk.errors import LoginRefused
from walferry.base.zk.watcher import Watcher


def test_a_session_whose_login_is_refused_for_good_is_over_and_a_watcher_begins_another(secured: Secured) -> None:
    async def watch() -> None:
        login = secured.password()
        file = Path(login.zookeeper.password_file or "")
        with proxied(secured.with_passwords.quorum) as (proxy, through):
            async with Watcher(through, login) as watcher:
                first = await watcher.call(lambda zk: zk)
                over = connected_as(first, KazooState.LOST)
                file.unlink()
                proxy.cut()
                proxy.mend()
                assert await asyncio.to_thread(over.wait, 60)
                with pytest.raises((AuthFailedError, ConnectionClosedError)):
                    first.get("/")
                with pytest.raises(LoginRefused, match="cannot be read"):
                    await watcher.call(lambda zk: read(zk, "/"))
                secured.password()  # writes the file again
                assert await watcher.call(lambda zk: read(zk, "/")) is not None

    asyncio.run(watch())


def test_many_looks_leave_one_watch_on_a_znode_that_does_not_change(hbase: HBaseZNodes, zookeeper: ZooKeeperServer) -> None:
    looks = 0

    def look(zk: KazooClient, watch: Watch) -> int | None:
        nonlocal looks
        looks += 1
        children(zk, hbase.nodes.rs, watch)
        return len(zk._child_watchers[hbase.nodes.rs]) if looks == 50 else None

    async def watch() -> None:
        async with Watcher(zookeeper.quorum, UNSECURED) as watcher:
            assert await watcher.first(look, lambda: 0.001) == 1

    asyncio.run(watch())
