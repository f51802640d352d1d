package walferry.embedded;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.mapreduce.CopyTable;
import org.apache.hadoop.hbase.snapshot.ExportSnapshot;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;

/** HBase's own tools for an initial snapshot, run by MapReduce's local runner in this JVM. */
public final class CopyTools {
  private static final String MAPPERS = "4";

  private CopyTools() {}

  /** Takes a snapshot, copies it with ExportSnapshot to the other cluster's root folder, and clones it there. */
  public static void exportSnapshot(ClusterClient client, String table, ClusterClient other, String snapshot, String folder)
      throws Exception {
    TableName name = TableName.valueOf(table);
    try (Admin admin = client.connection.getAdmin()) {
      admin.snapshot(snapshot, name);
    }
    run(new ExportSnapshot(), local(client, folder), "--snapshot", snapshot, "--copy-to", other.conf.get("hbase.rootdir"),
        "--mappers", MAPPERS);
    try (Admin admin = other.connection.getAdmin()) {
      admin.cloneSnapshot(snapshot, name);
    }
  }

  /** Copies a table's rows with CopyTable to a table that the other cluster has. */
  public static void copyTable(ClusterClient client, String table, String clusterKey, String folder) throws Exception {
    run(new CopyTable(), local(client, folder), "--peer.adr=" + clusterKey, table);
  }

  private static Configuration local(ClusterClient client, String folder) {
    Configuration conf = HBaseConfiguration.create(client.conf);
    conf.set("mapreduce.framework.name", "local");
    conf.set("hadoop.tmp.dir", folder);
    conf.set("mapreduce.jobtracker.staging.root.dir", folder + "/staging");
    conf.set("mapreduce.local.map.tasks.maximum", MAPPERS);
    conf.setInt("hbase.client.scanner.caching", ClusterClient.SCAN_CACHING);
    conf.setBoolean("mapreduce.map.speculative", false);
    return conf;
  }

  private static void run(Tool tool, Configuration conf, String... args) throws Exception {
    int code = ToolRunner.run(conf, tool, args);
    if (code != 0) {
      throw new IOException(tool.getClass().getSimpleName() + " ended with code " + code);
    }
  }
}
