"""Finds the hosts that hold a region's blocks, so that the balancer can place a region next to its files.

hdfs-native's client does not return the locations of blocks, so this module asks the NameNode's WebHDFS (GET_BLOCK_LOCATIONS, in
Hadoop 2 and 3) at the address in the Hadoop configuration. Without an address, with Kerberos, on local files, or if WebHDFS does
not answer in time, no host is preferred: a region may then be placed anywhere, and nothing else changes.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.error import URLError
from urllib.parse import quote, urlencode
from urllib.request import urlopen

from walferry.base.errors import WalferryError
from walferry.base.records import parsed
from walferry.hbase.files.clients import at, scheme
from walferry.hbase.files.hdfs import login_in_effect
from walferry.hbase.files.namenodes import path_of, web_addresses
from walferry.hbase.names import is_file_name
from walferry.master.reconcile import Known
from walferry.master.znodes import encoded_name

PARALLEL_CALLS = 8
CALL_TIMEOUT_SECONDS = 10.0
PATIENCE_SECONDS = 60.0  # for all regions together; the rest then has no locality
MAX_FILES = 50  # of a region: the largest files are representative enough
MAX_ANSWER_BYTES = 8 << 20

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HdfsLocality:
    """The block locations of the regions below an HBase root folder. `user` is the user that asks."""

    root: str
    user: str

    def __call__(self, regions: Sequence[Known]) -> Mapping[str, Mapping[str, float]]:
        """Return which part of each region's bytes each host holds, from 0 to 1, by encoded name."""
        nodes = web_addresses(self.root) if scheme(self.root) == "hdfs" else []
        if not nodes:
            return {}
        if login_in_effect(self.root) is not None:
            log.info("where the blocks of regions lie is not known: WebHDFS of a cluster with Kerberos is not asked")
            return {}
        give_up = time.monotonic() + PATIENCE_SECONDS
        found: dict[str, Mapping[str, float]] = {}

        def look(region: Known) -> None:
            if time.monotonic() < give_up:
                found[encoded_name(region.name)] = self._of_region(nodes, region)

        with ThreadPoolExecutor(PARALLEL_CALLS, "locality") as pool:
            for region, outcome in [(region, pool.submit(look, region)) for region in regions]:
                error = outcome.exception()
                if isinstance(error, (WalferryError, OSError, ValueError, KeyError, TypeError)):
                    log.info("where the blocks of region %s lie is not known: %s", encoded_name(region.name), error)
                elif error is not None:
                    raise error
        return found

    def _of_region(self, nodes: Sequence[str], region: Known) -> Mapping[str, float]:
        bytes_of: Counter[str] = Counter()
        total = 0
        for path in self._store_files(region):
            for length, hosts in _blocks(nodes, path, self.user):
                total += length
                bytes_of.update(dict.fromkeys(hosts, length))
        return {host: held / total for host, held in bytes_of.items()} if total else {}

    def _store_files(self, region: Known) -> list[str]:
        """Return the paths of the region's HFiles, the largest ones first."""
        table = region.info.table_name
        parts = [table.namespace.decode() or "default", table.qualifier.decode(), encoded_name(region.name)]
        if not all(map(is_file_name, parts)):
            return []
        folder = f"{self.root.rstrip('/')}/data/{'/'.join(parts)}"
        try:
            listed = at(folder, lambda system, path: list(system.client.list_status(path, True)))
        except FileNotFoundError:
            return []
        # .regioninfo, .tmp, recovered.edits and the like contain no served rows: HFiles lie in <family>/<file>.
        within = [(each, each.path.rpartition(f"{parts[-1]}/")[2].split("/")) for each in listed if not each.isdir]
        files = [each for each, names in within if len(names) == 2 and names[0] != "recovered.edits" and names[0][:1] != "."]
        largest = sorted(files, key=lambda each: -each.length)[:MAX_FILES]
        return [path_of(each.path) for each in largest]


def _blocks(nodes: Sequence[str], path: str, user: str) -> list[tuple[int, list[str]]]:
    """Return the length and the hosts of each block of a file. Raises OSError, ValueError, KeyError, TypeError."""
    query = urlencode({"op": "GET_BLOCK_LOCATIONS", "user.name": user})
    last: OSError = URLError("no NameNode")
    for node in nodes:
        try:
            with urlopen(f"http://{node}/webhdfs/v1{quote(path)}?{query}", timeout=CALL_TIMEOUT_SECONDS) as answer:
                body = answer.read(MAX_ANSWER_BYTES)
        except OSError as error:  # a standby NameNode answers with an error too
            last = error
            continue
        return [_block(each) for each in parsed(body, MAX_ANSWER_BYTES)["LocatedBlocks"]["locatedBlocks"]]
    raise last


def _block(located: Any) -> tuple[int, list[str]]:
    return int(located["block"]["numBytes"]), [str(each["hostName"]).lower() for each in located["locations"]]
