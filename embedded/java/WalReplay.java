package walferry.embedded;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.mapreduce.WALPlayer;
import org.apache.hadoop.hbase.tool.BulkLoadHFilesTool;
import org.apache.hadoop.util.GenericOptionsParser;
import org.apache.hadoop.util.ToolRunner;

/** HBase's WALPlayer, and behind it, if it has written HFiles, BulkLoadHFilesTool; both in this one JVM. */
public final class WalReplay {
  private WalReplay() {}

  /** Arguments: -Dname=value …, the WALs, the table. With -Dwal.bulk.output=folder HFiles are written there, and loaded. */
  public static void main(String[] args) throws Exception {
    Configuration conf = HBaseConfiguration.create();
    String[] rest = new GenericOptionsParser(conf, args).getRemainingArgs();
    String output = conf.get(WALPlayer.BULK_OUTPUT_CONF_KEY);
    int code = ToolRunner.run(new Configuration(conf), new WALPlayer(), rest);
    if (code == 0 && output != null) {
      String table = rest[rest.length - 1];
      code = ToolRunner.run(new Configuration(conf), new BulkLoadHFilesTool(conf), new String[] {output, table});
    }
    System.exit(code);
  }
}
