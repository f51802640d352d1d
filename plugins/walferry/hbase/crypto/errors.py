"""What can be wrong with the keys of encrypted WALs. No error contains a key or a password."""

from __future__ import annotations

from walferry.base.errors import WalferryError


class KeyProviderError(WalferryError):
    """The key provider cannot give a key. The message names the key store or the setting, and says what to do."""

    retry_helps = False
