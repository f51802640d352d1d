"""What the commands for operators raise."""

from __future__ import annotations

from walferry.base.errors import WalferryError


class Refused(WalferryError):
    """The request is not safe, or not possible as things are. The message says why and what to do."""

    retry_helps = False
