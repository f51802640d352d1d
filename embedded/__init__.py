"""Real HBase clusters on this machine, for tests, demo and benchmark.

standalone.py   HBase and ZooKeeper in one JVM, on local files
distributed.py  HDFS, ZooKeeper, masters and RegionServers as processes of their own
classic.py      HBase 1.7.2 as one of the distributed clusters, for the classic layout of queues
masterless.py   RegionServers of HBase 1.7.2 without an HMaster
delay.py        a proxy that makes a server seem far away
hdfs.py         the HDFS below the distributed clusters
hdfs_ha.py      an HDFS with two NameNodes, one of them active
hbase.py        addresses, settings and hbase-site.xml of all clusters
zookeeper.py    a ZooKeeper without HBase
spark.py        the Spark job without Airflow
spark_cluster.py      a standalone Spark cluster
yarn.py         a YARN on an HDFS
spark_connect.py      a Spark Connect server
client.py       HBase's own Java client, driven from Python
wal_player.py   HBase's WALPlayer in a JVM of its own
wire.py         the encoding of mutations and cells for the Java client
jars.py         HBase's jars from Maven Central, cached; jars.lock names them
ivy.py          fetches jars, and tries again after a lost connection
jars_lock.py    writes jars.lock after a version has changed
lock.py         pins Python packages
venv.py         makes the virtual environment, and shows the progress
java.py         finds Java, and compiles the helpers under java/
shared_classes.py, dump_classes.py      archives of loaded classes: JVMs start in half the time
cache.py        folders that are filled once, whole or not at all
processes.py    JVMs that end with their parent, and bounded waits
hold.py         ends a program of many processes with its parent
"""
