package walferry.embedded;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.security.PrivilegedExceptionAction;
import java.util.List;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.protobuf.generated.ClientProtos.RegionActionResult;
import org.apache.hadoop.hbase.protobuf.generated.VisibilityLabelsProtos.VisibilityLabelsResponse;
import org.apache.hadoop.hbase.security.visibility.VisibilityClient;
import org.apache.hadoop.security.UserGroupInformation;

/** Visibility labels of a cluster with the VisibilityController, and what they let a user see. */
public final class Labels {
  private Labels() {}

  public static void add(ClusterClient client, List<String> labels) throws Throwable {
    check(VisibilityClient.addLabels(client.connection, labels.toArray(new String[0])));
  }

  public static void setAuths(ClusterClient client, String user, List<String> labels) throws Throwable {
    check(VisibilityClient.setAuths(client.connection, labels.toArray(new String[0]), user));
  }

  private static void check(VisibilityLabelsResponse response) throws IOException {
    for (RegionActionResult result : response.getResultList()) {
      if (result.hasException()) {
        throw new IOException(result.getException().getName() + ": " + result.getException().getValue().toStringUtf8());
      }
    }
  }

  /** Does what ClusterClient.scanCells does, by a connection of that user. */
  public static byte[] scanAs(ClusterClient client, String user, String table) throws Exception {
    return UserGroupInformation.createRemoteUser(user).doAs((PrivilegedExceptionAction<byte[]>) () -> {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      DataOutputStream out = new DataOutputStream(bytes);
      try (Connection connection = ConnectionFactory.createConnection(client.conf);
          Table there = connection.getTable(TableName.valueOf(table));
          ResultScanner results = there.getScanner(client.scan(List.of(), false))) {
        for (Result result : results) {
          for (Cell cell : result.rawCells()) {
            CellFormat.writeCell(out, cell);
          }
        }
      }
      return bytes.toByteArray();
    });
  }
}
