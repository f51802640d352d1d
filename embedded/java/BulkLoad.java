package walferry.embedded;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellComparator;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.PrivateCellUtil;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.io.hfile.HFile;
import org.apache.hadoop.hbase.io.hfile.HFileContextBuilder;
import org.apache.hadoop.hbase.tool.BulkLoadHFiles;
import org.apache.hadoop.hbase.util.Bytes;

/** Hands HFiles to HBase's own bulk load tool: those that it writes of puts, one a family, and others. */
public final class BulkLoad {
  private BulkLoad() {}

  /** Loads `puts`, in the layout of CellFormat, as files in a new folder below `folder`. */
  public static void load(ClusterClient client, String table, byte[] puts, String folder) throws IOException {
    loadFiles(client, table, writeFiles(client, puts, folder));
  }

  /** Writes `puts` to files in a new folder below `folder`, in one folder a family, and returns that new folder. */
  public static String writeFiles(ClusterClient client, byte[] puts, String folder) throws IOException {
    Path root = new Path(folder, UUID.randomUUID().toString());
    FileSystem files = root.getFileSystem(client.conf);
    for (Map.Entry<byte[], TreeSet<Cell>> family : sorted(puts).entrySet()) {
      Path file = new Path(new Path(root, Bytes.toString(family.getKey())), UUID.randomUUID().toString().replace("-", ""));
      write(client.conf, files, file, family.getValue());
    }
    return root.toString();
  }

  /** Loads the HFiles that lie in a folder, in one folder a family. HBase takes them away. */
  public static void loadFiles(ClusterClient client, String table, String folder) throws IOException {
    if (BulkLoadHFiles.create(new Configuration(client.conf)).bulkLoad(TableName.valueOf(table), new Path(folder)).isEmpty()) {
      throw new IOException("nothing was loaded into " + table);
    }
  }

  private static Map<byte[], TreeSet<Cell>> sorted(byte[] puts) throws IOException {
    Map<byte[], TreeSet<Cell>> families = new TreeMap<>(Bytes.BYTES_COMPARATOR);
    DataInputStream in = new DataInputStream(new ByteArrayInputStream(puts));
    long now = System.currentTimeMillis();
    while (in.available() > 0) {
      for (List<Cell> cells : CellFormat.readMutation(in).getFamilyCellMap().values()) {
        for (Cell cell : cells) {
          if (cell.getTimestamp() == HConstants.LATEST_TIMESTAMP) {
            PrivateCellUtil.setTimestamp(cell, now);
          }
          families.computeIfAbsent(CellUtil.cloneFamily(cell), f -> new TreeSet<>(CellComparator.getInstance())).add(cell);
        }
      }
    }
    return families;
  }

  private static void write(Configuration conf, FileSystem files, Path file, TreeSet<Cell> cells) throws IOException {
    try (HFile.Writer writer = HFile.getWriterFactoryNoCache(conf).withPath(files, file)
        .withFileContext(new HFileContextBuilder().withIncludesTags(true).build()).create()) {
      for (Cell cell : cells) {
        writer.append(cell);
      }
      writer.appendFileInfo(Bytes.toBytes("BULKLOAD_TIMESTAMP"), Bytes.toBytes(System.currentTimeMillis()));
    }
  }
}
