import os, pytest, json, time, logging
from tests.yarn.conftest import OnYarn, MODES
from tests.cluster.walferry_runs import plan, roll, source_of
from walferry.shipping.ship_run import ShipRun
from embedded.client import GLOBAL, even_splits

@MODES
def test_it(yarn, pair_on_hdfs, java_client, managed_peer, unique, monkeypatch, caplog, mode):
    caplog.set_level(logging.INFO)
    source, peer_cluster = (java_client(c.address) for c in pair_on_hdfs)
    peer = managed_peer(pair_on_hdfs.source.address, pair_on_hdfs.peer_cluster.address)
    at, table = source_of(pair_on_hdfs.source.address), unique("t")
    for c in (source, peer_cluster): c.create_table(table, {"f": GLOBAL}, even_splits(4))
    source.put_many(table, 1000, ["f:a"])
    roll(at, peer)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type":"spark","host":"yarn","extra":{"deploy-mode":mode}}))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.conf))
    for n in ("SPARK_HOME",): monkeypatch.delenv(n, raising=False)
    t=time.time()
    try:
        OnYarn(yarn, mode).run(ShipRun(source=at, peer_id=peer, run_id="r1", deadline=200))
    finally:
        print("TOOK", time.time()-t)
        print("APPS", json.dumps(yarn.applications(), indent=1))
        for r in caplog.records: print(r.levelname, r.getMessage()[:400])
        for n,l in yarn.container_logs(max(yarn.applications(),default="")).items(): print("=====",n,l[-3000:])
    assert not plan(at, peer).to_ship
    assert source.compare(table, peer_cluster, raw=True).same
