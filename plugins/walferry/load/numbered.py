"""Has a peer cluster load files, and checks that they count as younger than all its earlier data.

A load gets a sequence number by flushing the region. If a flush is already under way, HRegion.bulkLoadHFiles waits for it, and
loads the files without a number. Then the older of two cells with equal keys counts, and the server's answer does not show it.
The new name of a file does: <random>_SeqId_<number>_, or only <random>. But the name does not show whose file it is, and other
loads, flushes and compactions may add files to the region in the same moment. So of a family's new files

    all have numbers           ours is one of them, so it has one
    none has                   neither has ours
    some have                  ours is looked for among them, by its content (hbase/hfiles/ends.py)

A file that is not found counts as having no number: the files have to be loaded again. Right after the flush of the first load
there is little left to flush, so all new files have numbers then.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from walferry.base.security.login import Login
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.systems import open_wal
from walferry.hbase.hfiles.ends import FileEnd
from walferry.hbase.names import family_folder, is_file_name
from walferry.hbase.rpc import admin, bulk_load
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.tables.regions import Region
from walferry.load.errors import NotLoaded
from walferry.load.staging import log_in_to, store_folder

MOST_OPENED = 100  # of the files that came into a region during a load: usually few, but a peer cluster may name any number
_NUMBERED = re.compile(r".+_SeqId_\d+_")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StagedFile:
    """A file to load, and its end, which no other file has. `cells` is the number of its cells, if they were counted."""

    family: bytes
    url: str
    end: FileEnd
    cells: int = 0


@dataclass(frozen=True)
class Destination:
    """The region into which files are loaded, the login, and the folder that the region's server has made for them."""

    table: str
    region: Region
    token: str
    login: Login

    def __str__(self) -> str:
        return f"region {self.region.encoded_name} of table {self.table}"


def load_numbered(server: Connection, to: Destination, files: Sequence[StagedFile], cluster_id: str) -> None:
    """Have a server load files in one call, and check that each of them has got a sequence number.

    The peer cluster's own replication does not send the files to the cluster `cluster_id`, the source. Raises RpcError, and
    NotLoaded, after which the same files may be in the region without a number.
    """
    assert to.region.server is not None
    families = sorted({file.family for file in files})
    with admin.connect(to.region.server, login=to.login) as asked:
        before = set(bulk_load.store_files(asked, to.region.name, families))
        if not bulk_load.load(server, to.region.name, to.token, [(file.family, file.url) for file in files], [cluster_id]):
            raise NotLoaded(
                f"{to}: the peer cluster has not loaded its files", f"The log of its RegionServer {server.server} says why"
            )
        new = set(bulk_load.store_files(asked, to.region.name, families)) - before
    for file in files:
        of_family = family_folder(file.family)
        _check_number(to, file, [name for folder, name in map(_folder_and_name, new) if folder == of_family])


def _folder_and_name(path: str) -> tuple[str, str]:
    """Split the path of a region's file, …/<family's folder>/<name>. For any other text, return two empty texts."""
    folder, _, name = path.rpartition("/")
    sound = is_file_name(name) and name.isprintable()
    return (folder.rpartition("/")[2], name) if sound else ("", "")


def _check_number(to: Destination, file: StagedFile, new: Sequence[str]) -> None:
    """Raise NotLoaded unless the file has a number. It is one of the `new` files of its family."""
    numbered = [name for name in new if _NUMBERED.fullmatch(name)]
    if not numbered:
        raise NotLoaded(
            f"{to}: the peer cluster has loaded files without a sequence number",
            "It was flushing the region; loaded again, they get one",
        )
    if len(numbered) < len(new) and not _holds(to, file, numbered):
        raise NotLoaded(
            f"{to}: whether its file in family {file.family.decode(errors='replace')} has got a sequence number is not known",
            "Other files came into the region in the same moment; it is loaded again",
        )


def _holds(to: Destination, file: StagedFile, names: Iterable[str]) -> bool:
    """Return whether one of these files of the region is the file that was loaded."""
    if not is_file_name(to.region.encoded_name):  # the peer cluster chooses this name, and it may lead elsewhere
        return False
    folder = store_folder(to.token, to.table, to.region.encoded_name, file.family)
    log_in_to(folder, to.login)
    for name in islice(names, MOST_OPENED):
        try:
            with open_wal(f"{folder}/{name}") as found:
                if file.end.is_that_of(found):
                    return True
        except (StoreError, OSError) as error:  # a compaction may have moved it, and not every login may read there
            log.info("whether %s was loaded just now cannot be seen: %s", name, error)
    return False
