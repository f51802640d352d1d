"""The page's text about a source."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from tests.unit.airflow.page.pages import BEHIND, LAST, REACHED, Parsed, behind, browser, parsed, sample, shown, shown_source
from tests.unit.observe.status.views import DEAD, HOUR, MINUTE, NOW, SERVER, group_of, note, notes, peer, queue, view, wal
from walferry.airflow.page.links import Links
from walferry.airflow.page.sources import ShownSource
from walferry.engine.summary import Status
from walferry.hbase.errors import PositionError
from walferry.hbase.files.space import Space
from walferry.observe.status.ages import Certainty
from walferry.observe.status.describing import describe, unreachable
from walferry.observe.status.files import FilesSeen, Read
from walferry.observe.status.model import RegionStatus, ShippingPace
from walferry.observe.status.notes import Notes, PeerDown
from walferry.observe.status.peer_clusters import PeerClusterStatus
from walferry.observe.status.view import Holder
from walferry.replication.retention.survey import Amount, Blocker, Fate, Forecast, OldWalSurvey, ShippedBy

REPO = Path(__file__).resolve().parents[4]
RECOVERED = queue(wal(NOW - 5 * HOUR, server=DEAD), queue_id=f"p-{DEAD}")
HOSTILE = "<script>alert(1)</script>\u202e\x1b[2J{{7*191}}\u200b"


def test_a_source_without_peers_says_so() -> None:
    page = shown(shown_source(describe(view(peers=()))))
    assert "The cluster has no replication peers." in page.text
    assert "There are no queues." in page.text
    assert "None has left queues." in page.text


def test_a_healthy_peer_has_no_lag_and_says_that_nothing_waits() -> None:
    (name,) = (wal(NOW - MINUTE).name.text,)
    seen = describe(view(queue(wal(NOW - MINUTE, 50))), FilesSeen(reads={(name, 50): Read(None, NOW)}), REACHED)
    text = shown(shown_source(seen)).text
    assert "Peer p Up to date Lag none: nothing waits" in text
    assert "Peer cluster reachable" in text


def test_lag_is_the_first_thing_said_of_a_peer_with_its_certainty() -> None:
    text = shown(behind()).text
    assert "Peer p Stuck Lag at most 3 h no edit is older than its WAL's file Stuck:" in text
    assert "position 100" in text
    assert "2 of 3 WALs to ship" in text
    assert "2 WALs to ship, 3 queued" in text


def test_each_peer_has_a_row_above_all_the_worst_first_with_its_trouble() -> None:
    late = queue(wal(NOW - 3 * HOUR, 100), queue_id="late")
    seen = describe(
        view(late, peers=(peer("calm"), peer("late"))), peer_clusters={"late": PeerClusterStatus(False, "no answer", NOW)}
    )
    page = shown(shown_source(seen))
    table, cards = page.text.index("Peers, the worst first"), page.text.index("Peer late Peer cluster down")
    worst = "late Peer cluster down at most 3 h unknown after the next roll its peer cluster cannot be reached: no answer"
    assert (
        table
        < page.text.index(worst)
        < page.text.index("calm Up to date none: nothing waits 0 B nothing to ship now none")
        < cards
    )
    anchors = {(link["href"] or "").removeprefix("#") for link in page.all("a") if (link["href"] or "").startswith("#peer-")}
    assert anchors == {heading["id"] for heading in page.all("h3") if (heading.get("id") or "").startswith("peer-")}
    assert len(anchors) == 2


def test_a_peer_over_its_limit_comes_before_one_that_is_being_shipped() -> None:
    held = {"calm": Holder("batch", "since then")}
    seen = describe(view(BEHIND, peers=(peer("calm"), peer("p")), peer_locks=held))
    late = tuple(replace(each, max_lag=60.0, stuck=None) if each.id == "p" else each for each in seen.peers or ())
    text = shown(shown_source(replace(seen, peers=late))).text
    table = text.index("Peers, the worst first")
    assert text.index("p Behind at most 3 h", table) < text.index("calm Shipping", table) < text.index("Peer p Behind")


def test_what_is_not_known_is_never_shown_as_nothing() -> None:
    text = shown(shown_source(describe(view(peers=(peer(),), queues=None)))).text
    assert "Lag unknown because the queues cannot be read" in text
    assert "WALs unknown" in text
    assert "The queues cannot be read." in text
    assert not re.search(r"Lag (none|0)", text)


def test_a_position_that_cannot_be_read_is_told_with_its_reason() -> None:
    odd = queue(wal(NOW - HOUR, PositionError("/rs/q/w", "it has 1 byte")), wal(NOW - MINUTE))
    page = shown(shown_source(describe(view(odd))))
    assert "Position unreadable" in page.text
    assert "position unknown :" in page.text


def test_a_source_that_cannot_be_reached_says_why_and_the_others_are_shown() -> None:
    page = shown(shown_source(unreachable("ZooKeeper at zk9:2181 has not answered", NOW / 1000), "far"), behind())
    assert "Unreachable, so lag is unknown: ZooKeeper at zk9:2181 has not answered" in page.text
    assert "Peer p Stuck" in page.text


def test_a_wrong_connection_says_what_is_wrong() -> None:
    assert "Not known: connection 'x': wal_root is missing" in shown(ShownSource("x", "connection 'x': wal_root is missing")).text


def test_a_peer_cluster_that_is_down_is_told_with_since_when_a_run_has_found_it_down() -> None:
    seen = view(BEHIND, notes=Notes(peer_down={"p": PeerDown(NOW - HOUR, "no RegionServer answers")}))
    text = shown(shown_source(describe(seen, peer_clusters={"p": PeerClusterStatus(False, "no server is registered", NOW)}))).text
    assert "Peer-down: its peer cluster cannot be reached: no server is registered" in text
    assert re.search(r"Failing: it has failed for [0-9a-z ]+: no RegionServer answers", text)


def test_who_may_trigger_nothing_is_offered_no_form_and_no_empty_column_for_them() -> None:
    offered, seen = shown(full()), shown(full(), who="viewer")
    assert {form["id"] for form in offered.all("details") if form.get("class") == "form"}
    assert not [form for form in seen.all("details") if form.get("class") == "form"]
    assert "Configuration JSON" not in seen.text
    assert seen.texts.count("Actions") == 0 < offered.texts.count("Actions")
    assert SERVER in seen.text


def test_each_notice_names_its_runbook_and_links_to_it_where_the_docs_are() -> None:
    assert "Runbook: A peer is stuck, docs/runbooks/stuck-peer.md" in shown(behind()).text
    with browser(full(), docs="https://docs.example.org/walferry/") as client:
        page = parsed(client.get("/replication").text)
    linked = {link["href"] for link in page.all("a") if (link["href"] or "").startswith("https:")}
    names = ("stuck-peer", "peer-cluster-down", "recovered-queue", "oldwals-growing", "regions-stuck")
    assert linked == {f"https://docs.example.org/walferry/runbooks/{name}.html" for name in names}
    assert all((REPO / "docs/runbooks" / f"{name}.md").exists() for name in names)


@pytest.mark.parametrize("docs", ["javascript:alert(1)//", "/docs", "", "data:text/html,x"])
def test_an_address_of_the_docs_that_is_no_web_address_is_not_linked(docs: str) -> None:
    assert Links("/", docs).runbook("stuck-peer").href is None


def test_runs_are_linked_by_the_names_that_they_have_in_airflow() -> None:
    held = {"p": Holder("batch", "2027-01-15T07:59:00+00:00", "replicate_peer/scheduled__2027-01-15T07:55:00+00:00")}
    noted = notes(note(Status.FAILED, run="replicate_peer/manual__1 a.2", error="the peer cluster refuses"))
    page = shown(shown_source(describe(view(BEHIND, peer_locks=held, notes=noted))))
    links = {link["href"] for link in page.all("a") if link.get("target") == "_top"}
    runs = "/airflow/dags/replicate_peer/runs"
    assert f"{runs}/scheduled__2027-01-15T07%3A55%3A00%2B00%3A00" in links
    assert {f"{runs}/manual__1%20a", f"{runs}/manual__1%20a/tasks/peer.ship/mapped"} <= links


NO_RUNS = ["", "no slash", "../../x/y.1", "dag/...1", "dag/.1", "a b/c.1", "dag/\u202ex.1", "d/" + "x" * 600]


@pytest.mark.parametrize("run", NO_RUNS)
def test_what_cannot_be_a_run_is_not_linked(run: str) -> None:
    held = {"p": Holder("batch", "", run.removesuffix(".1"))}
    page = shown(shown_source(describe(view(BEHIND, peer_locks=held))))
    assert not [link for link in page.all("a") if "/runs/" in (link["href"] or "")]


def full() -> ShownSource:
    """A source that has something of everything."""
    held = {("p", group_of()): Holder("batch", "2027-01-15T07:59:00+00:00")}
    noted = notes(note(Status.FAILED, error="no", run="replicate_peer/manual__1.1"))
    gone = queue(wal(NOW - HOUR), queue_id="gone", problems=("it is odd",))
    dead = queue(wal(NOW - HOUR, PositionError("/rs/q/w", "it is odd"), server=DEAD), server=DEAD, live=False)
    peer_locks = {"p": Holder("batch", "since then", "replicate_peer/manual__1")}
    seen = view(BEHIND, RECOVERED, gone, dead, leases=held, peer_locks=peer_locks, notes=noted, problems=("x is odd",))
    status = describe(seen, peer_clusters={"p": PeerClusterStatus(False, "it is down", NOW)})
    region = RegionStatus("abc", "t,,1.abc.", "OPENING", SERVER, NOW - HOUR)
    old = kept_by("s/q", Forecast(problem="it is not known"))
    return shown_source(replace(status, regions_in_transition=1, regions=(region,)), old_wals=old, histories={"p": [sample(0)]})


def kept_by(queue: str, forecast: Forecast) -> OldWalSurvey:
    """A survey in which a queue of the peer p keeps 7 of 9 files."""
    held, alone = Amount(7, 3 << 30, (NOW - HOUR) / 1000), Amount(1, 1 << 20)
    blocker = Blocker("p", ShippedBy.NOBODY, 7, held, alone, {queue: held})
    amounts: dict[Fate | None, Amount] = {None: Amount(9, 4 << 30), Fate.HELD: held}
    return OldWalSurvey(NOW / 1000, amounts=amounts, blockers=(blocker,), forecast=forecast)


def with_all_texts(value: Any, text: str) -> Any:
    """A status with this text in place of all its texts."""
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(with_all_texts(each, text) for each in value)
    if isinstance(value, dict):
        return {with_all_texts(key, text): with_all_texts(each, text) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: with_all_texts(getattr(value, each.name), text) for each in fields(value)})
    return value


def check_harmless(page: Parsed) -> None:
    assert [(each.get("src") or "").split("?")[0] for each in page.all("script")] == ["static/page.js"]
    assert not set("\u202e\x1b\u200b") & set("".join(page.texts))
    assert str(7 * 191) not in page.text
    assert not [attrs for _, attrs in page.elements if any(name.startswith("on") for name in attrs)]
    links = [each["href"] or "" for each in page.all("a")]
    assert links
    assert all(link.startswith(("?", "#", "/airflow/")) for link in links)


def test_no_text_of_a_status_becomes_html_or_a_template_or_hides_anything() -> None:
    of = full()
    status = replace(with_all_texts(of.status, HOSTILE), unreachable=None)
    old_wals = replace(with_all_texts(of.old_wals, HOSTILE), problem=None)
    page = shown(replace(of, status=status, old_wals=old_wals, histories={HOSTILE: [sample(0)]}))
    check_harmless(page)
    assert page.text.count(r"<script>alert(1)</script>\u202e\u001b[2J{{7*191}}\u200b") > 40
    for problem in (replace(of, status=unreachable(HOSTILE, 1)), ShownSource("a", HOSTILE), ShownSource(HOSTILE, "odd")):
        check_harmless(shown(problem, of))


def test_what_is_asked_for_becomes_no_html_either() -> None:
    with browser(full()) as client:
        page = parsed(client.get("/replication", params={"peer": HOSTILE, "text": f'">{HOSTILE}', "source": HOSTILE}).text)
    check_harmless(page)
    assert [each["value"] for each in page.all("input") if each["name"] == "text"] == [f'">{HOSTILE}']


def test_a_status_that_is_old_says_so() -> None:
    assert "This is 2 min old:" in shown(replace(behind(), asked_ms=NOW + 2 * MINUTE)).text
    assert "old:" not in shown(replace(behind(), asked_ms=NOW + 6000)).text


def test_long_names_are_cut() -> None:
    with browser(shown_source(describe(view(peers=(peer("x" * 100_000),))))) as client:
        assert len(client.get("/replication").text) < 400_000


def test_the_last_day_is_drawn_and_told_in_words() -> None:
    day = [sample(3, HOUR, 3 << 20, Certainty.AT_MOST), sample(2, None, None), sample(1, MINUTE, 0), sample(0, MINUTE, 0)]
    page = shown(replace(behind(), histories={"p": day}))
    assert [each["role"] for each in page.all("svg") if "viewbox" not in each] == ["img", "img"]
    assert "Lag over the last day: highest 1 h (not exact) at 07:45 UTC, last known 1 min at 08:00 UTC." in page.text
    assert "It is not known in 1 of 4 samples." in page.text
    assert "Shipped, up to 10.5 kB/s" in page.text
    assert LAST * 300 == NOW // 1000


@pytest.mark.parametrize(
    ("pace", "text"),
    [
        (ShippingPace(2e6, 61.0), "2.0 MB/s Done in 1 min 1 s"), (ShippingPace(2e6, 0.0), "2.0 MB/s Done in nothing to ship now"),
        (ShippingPace(None, None, "nothing is shipped"), "unknown Done in unknown nothing is shipped"),
    ],
)  # fmt: skip
def test_when_it_will_be_done_is_told_with_why_it_is_not_known(pace: ShippingPace, text: str) -> None:
    shown_source = behind()
    peers = tuple(replace(each, pace=pace) for each in shown_source.status.peers or ())
    assert peers
    page = shown(replace(shown_source, status=replace(shown_source.status, peers=peers)))
    assert re.search(rf"Throughput\s+{re.escape(text)}\s+More about this peer", page.text)


def test_regions_in_transition_are_listed() -> None:
    region = RegionStatus("abc", "t,,1.abc.", "OPENING", SERVER, NOW - HOUR)
    status = replace(describe(view(BEHIND)), regions_in_transition=3, regions=(region,))
    text = shown(shown_source(status)).text
    assert "3 regions in transition, the first of them" in text
    assert "t,,1.abc. OPENING" in text


def test_what_keeps_old_wals_is_told_with_the_day_on_which_the_disk_is_full() -> None:
    of = Forecast(1e6, 1.0, Space(1 << 40, int(48 * 3600 * 1e6)))
    text = shown(replace(behind(), old_wals=kept_by(f"{SERVER}/p", of))).text
    assert "Kept by queues 3.2 GB in 7 files" in text
    assert "Disk full 2027-01-17 08:00:00 UTC" in text
    assert "Only this peer keeps" in text
    unlisted = replace(behind(), old_wals=OldWalSurvey(NOW / 1000, "the NameNode does not answer"))
    assert "What lies in oldWALs is unknown: the NameNode does not answer" in shown(unlisted).text


def test_tables_say_what_they_hold_and_what_their_headers_belong_to() -> None:
    page = shown(shown_source(describe(view(BEHIND, RECOVERED))))
    assert page.all("table")
    assert len(page.all("caption")) == len(page.all("table"))
    assert {header.get("scope") for header in page.all("th")} == {"col", "row"}
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_no_style_and_no_script_stands_in_the_page_itself() -> None:
    page = shown(replace(behind(), histories={"p": [sample(0)]}))
    assert not page.all("style")
    assert not [attrs for _, attrs in page.elements if "style" in attrs or any(name.startswith("on") for name in attrs)]
