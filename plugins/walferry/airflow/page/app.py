"""The page's routes. All of them only read, and each needs the permission that `make_app` is given."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import FileResponse, HTMLResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from walferry.airflow.page.asked import asked
from walferry.airflow.page.links import Links
from walferry.airflow.page.rendering import Rendering
from walferry.airflow.page.sources import ShownSource

STATIC = Path(__file__).parent / "static"
STATIC_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# Looks may wait for ZooKeeper, so they have threads of their own: Airflow's API goes on meanwhile.
MOST_AT_ONCE = 8
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'self'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

log = logging.getLogger(__name__)


def make_app(
    may_see: Callable[..., Sequence[str]],
    look: Callable[[Sequence[str]], Sequence[ShownSource]],
    may_trigger: Callable[..., frozenset[str]],
    links: Links,
) -> FastAPI:
    """Return the page's app.

    Two dependencies know the user: `may_see` returns the connections that the user is shown, or refuses the user, and
    `may_trigger` returns the DAGs whose forms are offered. `look` returns the statuses of these connections.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, dependencies=[Depends(may_see)])
    rendering = Rendering(links, _version())
    places = CapacityLimiter(MOST_AT_ONCE)

    async def rendered(request: Request, names: Sequence[str], may: frozenset[str], *, whole: bool) -> HTMLResponse:
        wanted = asked(request.query_params)

        def make() -> str:
            return rendering.page(look(names), wanted, may, whole=whole)

        return HTMLResponse(await to_thread.run_sync(make, limiter=places))

    names_of, may_of = Depends(may_see), Depends(may_trigger)

    @app.get("/replication")
    async def page(request: Request, names: Sequence[str] = names_of, may: frozenset[str] = may_of) -> HTMLResponse:
        return await rendered(request, names, may, whole=True)

    @app.get("/content")
    async def content(request: Request, names: Sequence[str] = names_of, may: frozenset[str] = may_of) -> HTMLResponse:
        return await rendered(request, names, may, whole=False)

    @app.get("/static/{name}")
    async def static(name: str) -> FileResponse:
        found = next((path for path in STATIC.iterdir() if path.name == name and path.suffix in STATIC_TYPES), None)
        if found is None:
            raise HTTPException(404)
        return FileResponse(found, media_type=STATIC_TYPES[found.suffix])

    _answer_errors(app, rendering)
    return app


def _answer_errors(app: FastAPI, rendering: Rendering) -> None:
    """Add the headers to all answers, and pages of our own to the answers that refuse or fail."""

    @app.exception_handler(StarletteHTTPException)
    async def refused(request: Request, error: StarletteHTTPException) -> HTMLResponse:
        # The frame may not open pages outside itself, so a user who has to log in again does so inside it.
        framed = request.headers.get("sec-fetch-dest") == "iframe"
        return HTMLResponse(rendering.refusal(error.status_code, framed=framed), error.status_code)

    @app.middleware("http")
    async def with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        try:
            response = await call_next(request)
        except Exception:
            log.exception("the replication page failed")
            response = HTMLResponse(rendering.refusal(500), 500)
        response.headers.update(HEADERS)
        return response


def _version() -> str:
    """Return a text that changes with the static files, so that a browser does not use old ones."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(STATIC.iterdir()) if path.suffix in STATIC_TYPES))
    return digest.hexdigest()[:12]
