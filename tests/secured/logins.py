"""Logins to secured sites."""

from __future__ import annotations

from embedded.secured_site import USER, SecuredSite
from walferry.base.security.login import Login
from walferry.replication.source.logins import login_of


def login(site: SecuredSite, user: str = USER, **more: object) -> Login:
    """As the user, in the site's own realm, with more fields than a connection needs."""
    return login_of("a test", {**site.fields(user), **more})
