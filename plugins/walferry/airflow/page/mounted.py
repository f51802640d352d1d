"""The page as the plugin gives it to Airflow."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from walferry.airflow.page.links import URL_ROUTE

PREFIX = f"/{URL_ROUTE}"
# The address is relative, because Airflow's UI may lie below a path of its own.
NAVIGATION = {
    "name": "Replication",
    "href": f"{URL_ROUTE}/replication",
    "destination": "nav",
    "url_route": URL_ROUTE,
    "nav_top_level": True,
    "icon": f"{URL_ROUTE}/static/icon.svg",
    "icon_dark_mode": f"{URL_ROUTE}/static/icon-dark.svg",
}


class MountedPage:
    """An ASGI app that makes the real app at its first call: each of Airflow's processes imports this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        app = self._app or await asyncio.to_thread(self._made)
        await app(scope, receive, send)

    def _made(self) -> Any:
        with self._lock:
            if self._app is None:
                self._app = _make()
            return self._app


def _make() -> Any:
    from airflow.api_fastapi.app import API_ROOT_PATH

    from walferry.airflow.options import option
    from walferry.airflow.page.access import may_see, may_trigger
    from walferry.airflow.page.app import make_app
    from walferry.airflow.page.links import Links
    from walferry.airflow.page.sources import Sources

    return make_app(may_see, Sources().look, may_trigger, Links(API_ROOT_PATH, option("docs")))


APPS = [{"app": MountedPage(), "url_prefix": PREFIX, "name": "Walferry's replication page"}]
