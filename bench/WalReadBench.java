import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.NavigableMap;
import java.util.Random;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.ArrayBackedTag;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.KeyValue;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.Tag;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.hbase.wal.WAL;
import org.apache.hadoop.hbase.wal.WALEdit;
import org.apache.hadoop.hbase.wal.WALFactory;
import org.apache.hadoop.hbase.wal.WALKeyImpl;
import org.apache.hadoop.hbase.wal.WALProvider;
import org.apache.hadoop.hbase.wal.WALStreamReader;

/**
 * HBase's own WAL writer and reader, for bench.wal_read. Commands come on standard input, a line each, and are answered by one:
 *
 * <pre>
 * write PATH BYTES CELLS_AN_ENTRY [NAME=VALUE]*   writes a WAL of about that size with these settings, answers "written"
 * read PATH                         iterates it with HBase's reader, answers "nanoseconds, CPU nanoseconds, entries, cells"
 * </pre>
 */
public final class WalReadBench {
  private static final int REGIONS = 8;
  private static final byte[] FAMILY = Bytes.toBytes("f");
  private static final byte[] WORDS = new byte[8 * 16];

  static {
    new Random(2).nextBytes(WORDS);
  }

  public static void main(String[] args) throws IOException {
    Configuration conf = HBaseConfiguration.create();
    conf.setBoolean("hbase.unsafe.stream.capability.enforce", false); // local files have no reliable sync
    conf.set("hbase.crypto.keyprovider.parameters", System.getProperty("walferry.bench.keys"));
    conf.set("hbase.crypto.master.key.name", "hbase");
    FileSystem fs = FileSystem.getLocal(conf);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split(" ");
      if (words[0].equals("write")) {
        Configuration settings = new Configuration(conf);
        for (int i = 4; i < words.length; i++) {
          settings.set(words[i].split("=")[0], words[i].split("=")[1]);
        }
        write(fs, settings, new Path(words[1]), Long.parseLong(words[2]), Integer.parseInt(words[3]));
        System.out.println("written");
      } else {
        System.out.println(read(fs, conf, new Path(words[1])));
      }
    }
  }

  private static void write(FileSystem fs, Configuration conf, Path path, long bytes, int cellsAnEntry) throws IOException {
    Random random = new Random(1);
    NavigableMap<byte[], Integer> scopes = new TreeMap<>(Bytes.BYTES_COMPARATOR);
    scopes.put(FAMILY, HConstants.REPLICATION_SCOPE_GLOBAL);
    byte[][] regions = new byte[REGIONS][];
    for (int i = 0; i < REGIONS; i++) {
      regions[i] = Bytes.toBytes(String.format("%016x%016x", random.nextLong(), random.nextLong()));
    }
    boolean compressed = conf.getBoolean("hbase.regionserver.wal.enablecompression", false);
    long now = System.currentTimeMillis();
    long row = 0;
    try (WALProvider.Writer writer = WALFactory.createWALWriter(fs, path, conf)) {
      for (long sequence = 1; writer.getLength() < bytes; sequence++) {
        WALEdit edit = new WALEdit();
        for (int i = 0; i < cellsAnEntry; i++) {
          byte[] value = new byte[100];
          random.nextBytes(value);
          if (compressed) { // as text is: a few bits in each byte
            for (int b = 0; b < value.length; b++) {
              value[b] = WORDS[(b & 7) + 8 * (value[b & ~7] & 15)];
            }
          }
          byte[] qualifier = Bytes.toBytes(i % 2 == 0 ? "a" : "b");
          byte[] key = Bytes.toBytes(String.format("%016x", row));
          Tag[] tags = {};
          if (compressed) {
            tags = new Tag[] {new ArrayBackedTag((byte) 70, Bytes.toBytes("tag" + row % 50))};
          }
          edit.add(new KeyValue(key, FAMILY, qualifier, now, value, tags));
          row += i % 2;
        }
        WALKeyImpl key = new WALKeyImpl(regions[random.nextInt(REGIONS)], TableName.valueOf("bench"), sequence, now + sequence,
            new ArrayList<>(), HConstants.NO_NONCE, HConstants.NO_NONCE, null, scopes);
        writer.append(new WAL.Entry(key, edit));
      }
    }
  }

  private static String read(FileSystem fs, Configuration conf, Path path) throws IOException {
    long entries = 0;
    long cells = 0;
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long cpuStarted = threads.getCurrentThreadCpuTime();
    long started = System.nanoTime();
    try (WALStreamReader reader = WALFactory.createStreamReader(fs, path, conf)) {
      for (WAL.Entry entry = reader.next(); entry != null; entry = reader.next()) {
        entries++;
        cells += entry.getEdit().size();
      }
    }
    long nanoseconds = System.nanoTime() - started;
    return nanoseconds + " " + (threads.getCurrentThreadCpuTime() - cpuStarted) + " " + entries + " " + cells;
  }
}
