"""The values that the page proposes for Airflow's forms."""

from __future__ import annotations

import json

from tests.unit.airflow.page.pages import BEHIND, browser, parsed, shown, shown_source
from tests.unit.observe.status.views import DEAD, HOUR, NOW, SERVER, queue, view, wal
from walferry.observe.status.describing import describe

RECOVERED = queue(wal(NOW - 5 * HOUR, server=DEAD), queue_id=f"p-{DEAD}")


def test_a_recovered_queue_names_its_dead_server_and_offers_to_drain_it() -> None:
    page = shown(shown_source(describe(view(BEHIND, RECOVERED))))
    assert f"Recovered of peer p from {DEAD} {SERVER} gets no new WALs" in page.text
    conf = next(json.loads(text) for text in page.texts if text.startswith('{"source_conn_id"') and '"queue"' in text)
    assert conf == {"source_conn_id": "hbase_source", "queue": f"{SERVER}/p-{DEAD}"}
    assert [link["target"] for link in page.all("a") if link["href"] == "/airflow/dags/drain_recovered_queue"] == ["_top"]


def test_a_dead_server_is_offered_to_be_recovered() -> None:
    page = shown(shown_source(describe(view(queue(wal(NOW - HOUR, server=DEAD), server=DEAD, live=False)))))
    conf = next(json.loads(text) for text in page.texts if text.startswith("{") and '"server"' in text)
    assert conf == {"source_conn_id": "hbase_source", "server": DEAD}


def test_an_orphaned_queue_stands_out_and_no_form_deletes_it_unasked() -> None:
    page = shown(shown_source(describe(view(queue(wal(NOW - HOUR), queue_id="gone"), peers=()))))
    assert "1 queue belongs to peers that do not exist" in page.text
    assert "Orphaned" in page.text
    confs = [json.loads(text) for text in page.texts if text.startswith('{"source_conn_id"')]
    assert [conf["delete_orphan"] for conf in confs] == [False]


def test_each_source_s_forms_lead_to_its_own_dags() -> None:
    dead = queue(wal(NOW - HOUR, server=DEAD), server=DEAD, live=False)
    east, west = (shown_source(describe(view(BEHIND, RECOVERED, dead)), conn_id) for conn_id in ("hbase_source", "west"))
    dags = {}
    for chosen in ("hbase_source", "west"):
        page = shown(east, west, query=f"?source={chosen}")
        dags[chosen] = {str(link["href"]).rpartition("/")[2] for link in page.all("a") if "/dags/" in str(link["href"])}
        confs = [json.loads(text) for text in page.texts if text.startswith('{"source_conn_id"')]
        assert {conf["source_conn_id"] for conf in confs if "queue" in conf} == {chosen}
        assert {conf["source_conn_id"] for conf in confs if "server" in conf} == {"hbase_source", "west"}
    both = {f"{dag}{of}" for dag in ("replicate_peer", "replay_interval", "regionserver_failover") for of in ("", "-west")}
    assert dags == {"hbase_source": both | {"drain_recovered_queue"}, "west": both | {"drain_recovered_queue-west"}}


def test_who_may_trigger_one_source_s_runs_is_offered_no_others() -> None:
    sources = [shown_source(describe(view(BEHIND, RECOVERED)), conn_id) for conn_id in ("hbase_source", "west")]
    with browser(*sources, dags=("drain_recovered_queue-west", "replicate_peer-west")) as client:
        east, west = (parsed(client.get(f"/replication?source={each.conn_id}").text) for each in sources)
    for page in (east, west):
        links = {str(link["href"]).rpartition("/")[2] for link in page.all("a") if "/dags/" in str(link["href"])}
        assert "replicate_peer-west" in links
        assert not links & {"replicate_peer", "drain_recovered_queue"}
    assert "Actions" in west.texts
    assert "Actions" not in east.texts
