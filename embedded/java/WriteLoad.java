package walferry.embedded;

import com.google.gson.Gson;
import java.io.IOException;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * Threads that put all along and remember which puts were acknowledged, so that another cluster can be asked for them.
 *
 * <p>Each put has a cell of its own that nothing overwrites, whose qualifier and value name thread and number of the put, and one
 * that later puts of the same thread to the same row overwrite. Every second put goes to a fresh row, the others to one of a few.
 * Each thread has its own part of the key space, so that only some of them wait for a server that died.
 */
public final class WriteLoad {
  private static final byte[] FAMILY = Bytes.toBytes("f");
  private static final String OWN = "put";
  private static final int COMMON_ROWS = 100; // of each thread
  private static final int MOST_EXAMPLES = 20;

  private final List<Writer> writers = new ArrayList<>();
  private final Connection connection;
  private volatile boolean stopped;

  /** Starts at once. The client repeats a put until its server is back; a thread pauses `pauseMs` between two puts. */
  public WriteLoad(ClusterClient client, String table, int threads, int valueBytes, int pauseMs) throws IOException {
    Configuration conf = new Configuration(client.conf);
    conf.setInt("hbase.client.retries.number", 200); // a server's death takes longer than a client's usual patience
    conf.setInt("hbase.client.operation.timeout", 600_000);
    conf.setInt("hbase.rpc.timeout", 10_000);
    connection = ConnectionFactory.createConnection(conf);
    for (int number = 0; number < threads; number++) {
      long width = Long.divideUnsigned(-1L, threads);
      Writer writer = new Writer(TableName.valueOf(table), number, width, valueBytes, pauseMs);
      writers.add(writer);
      writer.setDaemon(true);
      writer.start();
    }
  }

  /** Waits for the puts under way. */
  public void stop() throws InterruptedException, IOException {
    stopped = true;
    for (Writer writer : writers) {
      writer.join();
    }
    connection.close();
  }

  /** JSON {"acknowledged": puts, "failed": puts that the client gave up, "longest_ms": the longest put, "errors": [text]}. */
  public String statusJson() {
    long acknowledged = 0;
    long longest = 0;
    List<String> errors = new ArrayList<>();
    for (Writer writer : writers) {
      synchronized (writer) {
        acknowledged += writer.acknowledged.cardinality();
        longest = Math.max(longest, writer.longestMs);
        errors.addAll(writer.errors);
      }
    }
    Map<String, Object> status = new LinkedHashMap<>();
    status.put("acknowledged", acknowledged);
    status.put("failed", errors.size());
    status.put("longest_ms", longest);
    status.put("errors", errors.subList(0, Math.min(errors.size(), MOST_EXAMPLES)));
    return new Gson().toJson(status);
  }

  /** Finds acknowledged puts whose cell `other` lacks: the first ones by name, and how many there are. */
  public String missingJson(ClusterClient other, String table) throws IOException {
    Map<Integer, BitSet> found = new LinkedHashMap<>();
    Scan scan = other.scan(List.of("f"), false);
    try (Table there = other.connection.getTable(TableName.valueOf(table)); ResultScanner results = there.getScanner(scan)) {
      for (Result result : results) {
        for (Cell cell : result.rawCells()) {
          String[] own = Bytes.toString(CellUtil.cloneQualifier(cell)).split("-");
          if (!own[0].equals(OWN)) {
            continue;
          }
          Writer writer = writers.get(Integer.parseInt(own[1]));
          int number = Integer.parseInt(own[2]);
          if (CellUtil.matchingRows(cell, writer.row(number)) && CellUtil.matchingValue(cell, writer.value(number))) {
            found.computeIfAbsent(writer.thread, t -> new BitSet()).set(number);
          }
        }
      }
    }
    long missing = 0;
    List<String> examples = new ArrayList<>();
    for (Writer writer : writers) {
      synchronized (writer) {
        BitSet lost = (BitSet) writer.acknowledged.clone();
        lost.andNot(found.getOrDefault(writer.thread, new BitSet()));
        missing += lost.cardinality();
        for (int n = lost.nextSetBit(0); n >= 0 && examples.size() < MOST_EXAMPLES; n = lost.nextSetBit(n + 1)) {
          examples.add("put " + n + " of thread " + writer.thread + ", row " + Bytes.toString(writer.row(n)));
        }
      }
    }
    Map<String, Object> outcome = new LinkedHashMap<>();
    outcome.put("missing", missing);
    outcome.put("examples", examples);
    return new Gson().toJson(outcome);
  }

  private final class Writer extends Thread {
    final int thread;
    final BitSet acknowledged = new BitSet(); // by number of the put; guarded by this
    final List<String> errors = new ArrayList<>();
    long longestMs;
    private final TableName table;
    private final long width; // of its part of the key space
    private final int valueBytes;
    private final int pauseMs;

    Writer(TableName table, int thread, long width, int valueBytes, int pauseMs) {
      super("writer-" + thread);
      this.table = table;
      this.thread = thread;
      this.width = width;
      this.valueBytes = valueBytes;
      this.pauseMs = pauseMs;
    }

    /** The row of a put's number, the same each time: only the numbers have to be remembered. */
    byte[] row(int number) {
      long spread = new Random(number % 2 == 0 ? number : -1 - new Random(number).nextInt(COMMON_ROWS)).nextLong();
      return Bytes.toBytes(String.format("%016x", thread * width + Long.remainderUnsigned(spread, width)));
    }

    byte[] value(int number) {
      byte[] value = new byte[valueBytes];
      new Random(((long) thread << 32) + number).nextBytes(value);
      return value;
    }

    @Override
    public void run() {
      try (Table there = connection.getTable(table)) {
        for (int number = 0; !stopped; number++) {
          put(there, number);
          Thread.sleep(pauseMs);
        }
      } catch (IOException | InterruptedException e) {
        remember(e);
      }
    }

    private void put(Table there, int number) {
      byte[] value = value(number);
      Put put = new Put(row(number));
      put.addColumn(FAMILY, Bytes.toBytes(OWN + "-" + thread + "-" + number), value);
      put.addColumn(FAMILY, Bytes.toBytes("last-" + thread), value);
      long began = System.nanoTime();
      try {
        there.put(put);
      } catch (IOException e) {
        remember(e);
        return;
      }
      synchronized (this) {
        acknowledged.set(number);
        longestMs = Math.max(longestMs, (System.nanoTime() - began) / 1_000_000);
      }
    }

    private synchronized void remember(Exception e) {
      errors.add(e.toString());
    }
  }
}
