"""As whom this process uses which part of which HDFS.

The functions for files take URLs, and one process works on the files of several clusters, as different principals of different
realms. So whoever knows a cluster's login says once, for each of its folders, that everything below is used as that principal.
A slave names folders too, for single loads: such a name must not decide as whom any other folder is used.
The registry is the process's own. A process that was forked from it has the same.
"""

from __future__ import annotations

import threading
from urllib.parse import urlsplit

from walferry.base.security.login import Kerberos

HDFS_SCHEMES = ("hdfs", "viewfs")
MOST_LENT = 1000  # far more than a process loads at a time

_logins: dict[str, Kerberos | None] = {}  # by the URL of a folder, without a slash at its end
_lent: dict[str, Kerberos | None] = {}  # the same of folders that slaves have named, the latest last
_lock = threading.Lock()


def log_in(folder: str, kerberos: Kerberos | None) -> None:
    """From now on use everything below a folder (a URL) as this principal, in this process.

    None: as the Hadoop configuration and the environment say. Nothing is connected to. Folders that are not on HDFS are passed
    over.
    """
    if urlsplit(folder).scheme in HDFS_SCHEMES:
        with _lock:
            _logins[folder.rstrip("/")] = kerberos


def lend(folder: str, kerberos: Kerberos | None) -> None:
    """Use a folder that a slave has made for one load, and nothing beside it, as this principal.

    So many are remembered; then the oldest is forgotten.
    """
    if urlsplit(folder).scheme in HDFS_SCHEMES:
        with _lock:
            _lent.pop(folder := folder.rstrip("/"), None)
            _lent[folder] = kerberos
            if len(_lent) > MOST_LENT:
                del _lent[next(iter(_lent))]


def login_at(url: str) -> Kerberos | None:
    """As whom a URL is used: by the login of the innermost folder that it is in.

    What is in none of the folders is used as the first one of the same file system that was logged in to.
    """
    parts = urlsplit(url)
    same = f"{parts.scheme}://{parts.netloc}"
    with _lock:
        if (found := _innermost(url)) is not None:
            known, folder = found
            return known[folder]
        return next((kerberos for each, kerberos in _logins.items() if f"{each}/".startswith(f"{same}/")), None)


def is_lent(url: str) -> bool:
    """Whether a URL is in a folder that a slave has named."""
    with _lock:
        found = _innermost(url)
        return found is not None and found[0] is _lent


def _innermost(url: str) -> tuple[dict[str, Kerberos | None], str] | None:
    """The innermost of the known folders that a URL is in, and where it is known."""
    folder = url.rstrip("/")
    while folder:
        for known in (_logins, _lent):
            if folder in known:
                return known, folder
        folder = folder.rpartition("/")[0]
    return None
