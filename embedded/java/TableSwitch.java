package walferry.embedded;

import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;

/** Enables or disables a table, and waits until that is done: `enable TABLE` or `disable TABLE`. It runs with HBase 1, too. */
public final class TableSwitch {
  private TableSwitch() {}

  public static void main(String[] args) throws Exception {
    TableName table = TableName.valueOf(args[1]);
    try (Connection connection = ConnectionFactory.createConnection(HBaseConfiguration.create());
        Admin admin = connection.getAdmin()) {
      if (args[0].equals("enable")) {
        admin.enableTable(table);
      } else {
        admin.disableTable(table);
      }
      System.out.println("done: " + args[0] + " " + table);
    } catch (Exception failed) {
      System.out.println("failed: " + failed);
    }
    System.exit(0);
  }
}
