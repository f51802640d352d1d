"""Real HBase clusters on this machine, for tests, demo and benchmark.

jars.py         HBase's jars from Maven Central, cached
java.py         finding Java, compiling the helpers under java/
processes.py    child processes that end with their parent
hbase.py        what all clusters share: addresses, settings, hbase-site.xml
standalone.py   one JVM with its own ZooKeeper, on local files
distributed.py  HDFS, ZooKeeper, masters and RegionServers as processes of their own
client.py       HBase's own Java client, driven from Python
"""
