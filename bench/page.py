"""How long the replication page takes, and what it reads, at 1,000 queues of 100 WALs each.

    PYTHONPATH=plugins python -m bench.page     WALFERRY_BENCH_PAGE_QUEUES (1000)

A real ZooKeeper holds a peer's queues, one of each of so many servers. The WALs are small files in HBase's format, in a real file
tree. The page's app is served over HTTP in a process of its own, as Airflow's api server serves it, but without Airflow and its
login. Chromium loads the page in a new tab.

 cold      the first page of a process: it connects and makes a pass over ZooKeeper. Looks at files, peer clusters and oldWALs
           begin, and a later page has them. As in Airflow, the page's icon in the navigation was asked for before
 stale     the first page after its last look has become too old
 cached    the page again at once
 last      the last of the pages of queues, as cached

The seconds are by HTTP until the last byte, with the CPU-seconds that the app's process takes meanwhile, and in the browser until
the page is drawn. The reads are all requests to ZooKeeper that a page causes, also those that go on after it was answered. HTTP
and the browser each have a process of the app.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from bench.plan import READS, WALS, Cluster
from embedded.browser import find_browser, options
from embedded.served import served
from embedded.zookeeper import ZooKeeperServer
from walferry.replication.source.cluster import SourceCluster

QUEUES = int(os.environ.get("WALFERRY_BENCH_PAGE_QUEUES", "1000"))
PEER = "one"
STALE_SECONDS = 8.0  # after these a page makes a new pass
PASS_SECONDS = 1.5
QUIET_SECONDS = 10.0  # until what a page has begun in the background is done
HEADER = "             HTTP seconds   of CPU      kB     browser seconds     ZooKeeper reads   connections\n" + "-" * 91


@dataclass(frozen=True)
class Loaded:
    """One page: the seconds that it took, the CPU-seconds that its process has taken meanwhile, its bytes, and the requests to
    ZooKeeper until all is quiet again.
    """

    seconds: float
    cpu: float
    size: int
    reads: int
    connections: int


Load = Callable[[str], tuple[float, int]]


def measure(load: Load, address: str, counts: Counter[str]) -> dict[str, Loaded]:
    """Load the page in each of the ways."""
    steps = (("cold", 0.0, ""), ("stale", STALE_SECONDS, ""), ("cached", 0.0, ""), ("last", 0.0, f"?page={QUEUES}"))
    found = {}
    urllib.request.urlopen(f"{address.rpartition('/')[0]}/static/icon.svg").close()
    for name, wait, query in steps:
        time.sleep(wait)
        if name in ("cached", "last"):
            load(address)  # what it causes is not counted, and ends before the next one
            time.sleep(PASS_SECONDS)
        counts.clear()
        cpu = time.process_time()
        seconds, size = load(f"{address}{query}")
        cpu = time.process_time() - cpu
        if name in ("cold", "stale"):
            time.sleep(QUIET_SECONDS)
        found[name] = Loaded(seconds, cpu, size, counts["reads"], counts["connections"])
    return found


def by_http(address: str) -> tuple[float, int]:
    """Load the page without a browser."""
    began = time.perf_counter()
    with urllib.request.urlopen(address) as answer:
        size = len(answer.read())
    return time.perf_counter() - began, size


@contextmanager
def in_browser() -> Iterator[Load]:
    """Loads pages, each in a new tab."""
    from playwright.sync_api import sync_playwright

    def load(address: str) -> tuple[float, int]:
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)
        drawn, size = page.evaluate(
            """async () => {
                const [navigation] = performance.getEntriesByType("navigation");
                const paint = () => performance.getEntriesByName("first-contentful-paint")[0];
                while (!paint() || !navigation.loadEventEnd) {
                    await new Promise((go) => setTimeout(go, 5));
                }
                return [Math.max(navigation.loadEventEnd, paint().startTime) / 1000, navigation.decodedBodySize];
            }"""
        )
        context.close()
        return drawn, size

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=options())
        browser.new_context().new_page().goto("about:blank")  # it starts its processes
        yield load
        browser.close()


def page_of(source: SourceCluster) -> Any:
    """The page's app, for an operator, whoever asks."""
    from walferry.airflow.page import forms
    from walferry.airflow.page.app import make_app
    from walferry.airflow.page.links import Links
    from walferry.airflow.page.sources import Sources

    sources = Sources(lambda conn_id: source)
    return make_app(lambda: ["hbase_source"], sources.look, lambda: frozenset(forms.DAGS), Links("/"))


def counted() -> Counter[str]:
    """What is counted from now on: requests to ZooKeeper, and sessions with it."""
    counts: Counter[str] = Counter()
    send, start = KazooClient._call, KazooClient.start_async

    def call(self: KazooClient, request: Any, result: Any) -> Any:
        counts["reads" if type(request).__name__ in READS else "others"] += 1
        return send(self, request, result)

    def begin(self: KazooClient) -> Any:
        counts["connections"] += 1
        return start(self)

    KazooClient._call, KazooClient.start_async = call, begin
    return counts


def measure_here(how: str, source: SourceCluster) -> None:
    """Measure in this process and print the figures as JSON."""
    counts = counted()
    with served(page_of(source)) as address:
        if how == "http":
            found = measure(by_http, f"{address}/replication", counts)
        else:
            with in_browser() as load:
                found = measure(load, f"{address}/replication", counts)
    print(json.dumps({name: asdict(loaded) for name, loaded in found.items()}))


def measure_apart(how: str, source: SourceCluster) -> dict[str, Loaded]:
    """Measure in a new process."""
    command = [sys.executable, "-m", "bench.page", how, source.to_json()]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {name: Loaded(**figures) for name, figures in json.loads(done.stdout.splitlines()[-1]).items()}


def main() -> None:
    """Make the cluster, load its page, print."""
    with tempfile.TemporaryDirectory(prefix="walferry-bench-page-") as folder:
        here = Path(folder)
        with ZooKeeperServer(here / "zookeeper", heap="1g") as zookeeper:
            cluster = Cluster(zookeeper, f"file://{here}/hbase", QUEUES, [PEER])
            cluster.make_znodes()
            cluster.make_files()
            http, browser = (measure_apart(how, cluster.source) for how in ("http", "browser"))
    print(f"{QUEUES:,} queues of {WALS} WALs\n{HEADER}")
    for name, loaded in http.items():
        took = f"{name:10} {loaded.seconds:14.2f} {loaded.cpu:8.2f} {loaded.size / 1000:7,.0f} {browser[name].seconds:19.2f}"
        print(f"{took} {loaded.reads:19,} {loaded.connections:13,}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure_here(sys.argv[1], SourceCluster.from_json(sys.argv[2]))
    else:
        main()
