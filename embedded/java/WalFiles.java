package walferry.embedded;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Map;
import java.util.UUID;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.hbase.wal.WAL;
import org.apache.hadoop.hbase.wal.WALFactory;
import org.apache.hadoop.hbase.wal.WALKeyImpl;
import org.apache.hadoop.hbase.wal.WALPrettyPrinter;
import org.apache.hadoop.hbase.wal.WALStreamReader;

/** WAL files, read by HBase's own code. */
public final class WalFiles {
  private WalFiles() {}

  /** The JSON that WALPrettyPrinter prints, with values. Its other lines (sizes, positions) lie between the entries. */
  public static String prettyPrint(ClusterClient client, String path) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (PrintStream out = new PrintStream(bytes, false, StandardCharsets.UTF_8)) {
      new WALPrettyPrinter(true, true, -1, new HashSet<>(), null, null, null, false, false, out)
          .processFile(client.conf, new Path(path));
    }
    return bytes.toString(StandardCharsets.UTF_8);
  }

  /**
   * The entries one after the other: `int64 offset after the entry | bytes region | bytes table | int64 sequence id |
   * int64 write time | int32 count, cluster ids (int64 most, int64 least significant bits) | int32 count, scopes (bytes family,
   * int32 scope) | int32 count, cells`; bytes and cells as in CellFormat.
   */
  public static byte[] read(ClusterClient client, String path) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    Path file = new Path(path);
    try (WALStreamReader reader = WALFactory.createStreamReader(file.getFileSystem(client.conf), file, client.conf)) {
      for (WAL.Entry entry = reader.next(); entry != null; entry = reader.next()) {
        writeEntry(out, entry, reader.getPosition());
      }
    }
    return bytes.toByteArray();
  }

  private static void writeEntry(DataOutputStream out, WAL.Entry entry, long end) throws IOException {
    WALKeyImpl key = entry.getKey();
    out.writeLong(end);
    CellFormat.writeBytes(out, key.getEncodedRegionName());
    CellFormat.writeBytes(out, Bytes.toBytes(key.getTableName().getNameAsString()));
    out.writeLong(key.getSequenceId());
    out.writeLong(key.getWriteTime());
    out.writeInt(key.getClusterIds().size());
    for (UUID id : key.getClusterIds()) {
      out.writeLong(id.getMostSignificantBits());
      out.writeLong(id.getLeastSignificantBits());
    }
    Map<byte[], Integer> scopes = key.getReplicationScopes();
    out.writeInt(scopes == null ? 0 : scopes.size());
    if (scopes != null) {
      for (Map.Entry<byte[], Integer> scope : scopes.entrySet()) {
        CellFormat.writeBytes(out, scope.getKey());
        out.writeInt(scope.getValue());
      }
    }
    out.writeInt(entry.getEdit().size());
    for (Cell cell : entry.getEdit().getCells()) {
      CellFormat.writeCell(out, cell);
    }
  }

  /** The seconds in which HBase's own reader merely iterates the file, one value a repetition. */
  public static double[] secondsToIterate(ClusterClient client, String path, int repetitions) throws IOException {
    double[] seconds = new double[repetitions];
    Path file = new Path(path);
    for (int i = 0; i < repetitions; i++) {
      long started = System.nanoTime();
      try (WALStreamReader reader = WALFactory.createStreamReader(file.getFileSystem(client.conf), file, client.conf)) {
        while (reader.next() != null) {
          // Only reading is measured.
        }
      }
      seconds[i] = (System.nanoTime() - started) / 1e9;
    }
    return seconds;
  }
}
