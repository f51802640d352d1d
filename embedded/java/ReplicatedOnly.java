package walferry.embedded;

import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.replication.regionserver.WALEntrySinkFilter;

/** A filter of a cluster's replication sink: it drops replicated edits of tables whose names begin with "unwanted". */
public final class ReplicatedOnly implements WALEntrySinkFilter {
  @Override
  public void init(Connection connection) {}

  @Override
  public boolean filter(TableName table, long writeTime) {
    return table.getQualifierAsString().startsWith("unwanted");
  }
}
