package walferry.embedded;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.util.Bytes;

/** Writes many rows, the same ones each time, spread evenly over the key space. */
public final class BulkWriter {
  private static final long GOLDEN_RATIO = 0x9E3779B97F4A7C15L; // odd, so each number gets a different key

  private BulkWriter() {}

  /** The key of row number `n`: n times the golden ratio, in 16 hexadecimal digits. */
  static byte[] rowKey(long number) {
    return Bytes.toBytes(String.format("%016x", number * GOLDEN_RATIO));
  }

  /** Rows `first` … `first + rows - 1`, one cell a column ("family:qualifier"), values of `valueBytes` bytes that hardly compress. */
  public static void putMany(ClusterClient client, String name, long first, long rows, List<String> columns, int valueBytes,
      int batch, int threads) throws Exception {
    byte[][][] split = new byte[columns.size()][][];
    for (int i = 0; i < split.length; i++) {
      String[] parts = columns.get(i).split(":", 2);
      split[i] = new byte[][] {Bytes.toBytes(parts[0]), Bytes.toBytes(parts[1])};
    }
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    try {
      List<Future<?>> parts = new ArrayList<>();
      for (int t = 0; t < threads; t++) {
        long from = first + rows * t / threads;
        long to = first + rows * (t + 1) / threads;
        parts.add(pool.submit(() -> {
          putRange(client, name, from, to, split, valueBytes, batch);
          return null;
        }));
      }
      for (Future<?> part : parts) {
        part.get();
      }
    } finally {
      pool.shutdownNow();
    }
  }

  private static void putRange(ClusterClient client, String name, long from, long to, byte[][][] columns, int valueBytes, int batch)
      throws Exception {
    try (Table table = client.connection.getTable(TableName.valueOf(name))) {
      List<Put> puts = new ArrayList<>(batch);
      for (long number = from; number < to; number++) {
        Put put = new Put(rowKey(number));
        for (int i = 0; i < columns.length; i++) {
          put.addColumn(columns[i][0], columns[i][1], value(number * columns.length + i, valueBytes));
        }
        puts.add(put);
        if (puts.size() == batch || number + 1 == to) {
          table.put(puts);
          puts.clear();
        }
      }
    }
  }

  private static byte[] value(long seed, int length) {
    byte[] value = new byte[length];
    long state = (seed + 1) * GOLDEN_RATIO;
    for (int i = 0; i < length; i++) {
      if (i % 8 == 0) {
        state ^= state << 13;
        state ^= state >>> 7;
        state ^= state << 17;
      }
      value[i] = (byte) (state >>> (8 * (i % 8)));
    }
    return value;
  }
}
