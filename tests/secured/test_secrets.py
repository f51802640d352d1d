"""A secured job on a Spark cluster: the data that others can read of it contain no secret."""

from __future__ import annotations

import contextlib
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from kazoo.client import KazooClient

from embedded.certificates import Authority
from embedded.client import GLOBAL
from embedded.kerberos import Kerberos
from embedded.processes import free_port
from embedded.spark_cluster import SparkCluster
from embedded.wire import put
from tests.cluster.spark_runs import Job
from tests.cluster.walferry_runs import roll
from tests.secret_search import files_under, keys_of, leaked
from tests.secured.logins import login
from tests.secured.peers import Pair
from walferry.base.zk.client import connected
from walferry.replication.peers.settings import SinkKind

PAGES = ("environment/", "jobs/", "executors/", "api/v1/applications/{app}/environment", "api/v1/applications/{app}/executors")
JOB_SECONDS = 120
ROWS = 500


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark"), workers=1, memory="512m") as cluster:
        yield cluster


def fetched(url: str) -> bytes:
    """A page; nothing while there is none."""
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
        found: bytes = answer.read()
        return found
    return b""


def started_with() -> dict[str, str]:
    """The arguments and the environment of each process that belongs to a job of Spark's."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            arguments = process.cmdline()
            if any("spark" in each for each in arguments):
                found[f"arguments of process {process.pid}"] = "\n".join(arguments)
                found[f"environment of process {process.pid}"] = repr(process.environ())
    return found


def znodes(zk: KazooClient, path: str = "/") -> Iterator[tuple[str, bytes]]:
    """All that HBase's user may read."""
    with contextlib.suppress(Exception):  # some are of others, some go while they are read
        yield f"znode {path}", zk.get(path)[0] or b""
        for name in zk.get_children(path):
            yield from znodes(zk, f"{path.rstrip('/')}/{name}")


@pytest.mark.parametrize("peer_site", ["privacy-tls"], indirect=True)
def test_no_secret_is_in_spark_s_pages_arguments_environments_znodes_and_logs(
    pair: Pair, kerberos: Kerberos, authority: Authority, spark: SparkCluster, tmp_path: Path
) -> None:
    for client in (pair.source, pair.peer_cluster):
        client.create_table("kept", {"f": GLOBAL})
    pair.source.write("kept", [put(f"row{n}", {"f:a": b"v" * 100}) for n in range(ROWS)])
    certificate = authority.certificate("walferry", "localhost")
    own = {"tls_certificate": str(certificate.certificate), "tls_key": str(certificate.key)}
    source = pair.at(SinkKind.HFILES, **own)
    roll(source, pair.peer)

    port, seen = free_port(), dict[str, str | bytes]()
    conf = {"spark.ui.enabled": "true", "spark.ui.port": str(port), "spark.executor.memory": "512m"}
    with Job(source, pair.peer, "secrets", tmp_path, sink=SinkKind.HFILES, master=spark.master, conf=conf) as job:
        give_up = time.monotonic() + JOB_SECONDS
        while job.running and time.monotonic() < give_up:
            seen |= started_with()
            app = fetched(f"http://127.0.0.1:{port}/api/v1/applications").partition(b'"id" : "')[2].partition(b'"')[0].decode()
            pages = {page: fetched(f"http://127.0.0.1:{port}/{page.format(app=app)}") for page in PAGES if app}
            pages |= {page: fetched(page) for url in spark.pages() for page in (url, f"{url}/json/")}
            seen |= {page: text for page, text in pages.items() if text}
            time.sleep(0.2)
        done = job.finish(JOB_SECONDS)
    assert done.code == 0, done.output
    assert pair.peer_cluster.count_rows("kept") == ROWS, "the job did its work by these secrets"

    for site in (pair.source_site, pair.peer_site):
        with connected(site.cluster.address.quorum, login=login(site, "hbase/localhost")) as zk:
            seen |= {f"{site.cluster.name}: {path}": data for path, data in znodes(zk)}
    seen |= {"output": done.output, **files_under(spark.folder)}
    users = [identity.fields() for identity in (pair.source_site, pair.peer_site)]
    keytabs = [Path(user["keytab"]).read_bytes() for user in users]
    secrets = {f"key {number}": key for number, key in enumerate(key for keytab in keytabs for key in keys_of(keytab))}
    secrets |= {f"line {n} of the private key": line for n, line in enumerate(certificate.key.read_bytes().splitlines()[1:-1])}

    assert seen.keys() >= {*PAGES, *spark.pages()}, "the pages of Spark's driver, master and worker were read"
    assert any(pair.peer in path and "znode" in path for path in seen), "znodes were read"
    everything = b"\n".join(text if isinstance(text, bytes) else text.encode() for text in seen.values())
    assert users[1]["keytab"].encode() in everything, "its path is there, and would be found"
    assert leaked(secrets, seen) == []
