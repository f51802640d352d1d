package walferry.embedded;

import com.google.gson.Gson;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellComparator;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.PrivateCellUtil;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;

/** Compares a table of one cluster with a table of another, cell by cell: key, timestamp, type, value and tags. */
public final class Comparison {
  private Comparison() {}

  /** One side: the cells of its scan, one after the other. `cell` is null at the end. */
  private static final class Side implements AutoCloseable {
    private final Table table;
    private final ResultScanner results;
    private Cell[] cells = new Cell[0];
    private int next;
    long seen;
    Cell cell;

    Side(ClusterClient client, String name, Scan scan) throws IOException {
      table = client.connection.getTable(TableName.valueOf(name));
      results = table.getScanner(scan);
      advance();
    }

    void advance() throws IOException {
      while (next == cells.length) {
        Result result = results.next();
        if (result == null) {
          cell = null;
          return;
        }
        cells = result.rawCells();
        next = 0;
      }
      cell = cells[next++];
      seen++;
    }

    @Override
    public void close() throws IOException {
      results.close();
      table.close();
    }
  }

  /** JSON {"left": cells, "right": cells, "different": cells that are not the same on both sides, "examples": [text]}. */
  public static String compareJson(ClusterClient left, String leftName, ClusterClient right, String rightName, List<String> families,
      boolean raw, int examplesWanted) throws IOException {
    long different = 0;
    List<String> examples = new ArrayList<>();
    try (Side a = new Side(left, leftName, left.scan(families, raw)); Side b = new Side(right, rightName, right.scan(families, raw))) {
      while (a.cell != null || b.cell != null) {
        int order = a.cell == null ? 1 : b.cell == null ? -1 : CellComparator.getInstance().compare(a.cell, b.cell, true);
        String found = order < 0 ? "only in the first: " + shown(a.cell)
            : order > 0 ? "only in the second: " + shown(b.cell)
            : contentDifference(a.cell, b.cell);
        if (found != null) {
          different++;
          if (examples.size() < examplesWanted) {
            examples.add(found);
          }
        }
        if (order <= 0) {
          a.advance();
        }
        if (order >= 0) {
          b.advance();
        }
      }
      Map<String, Object> outcome = new LinkedHashMap<>();
      outcome.put("left", a.seen);
      outcome.put("right", b.seen);
      outcome.put("different", different);
      outcome.put("examples", examples);
      return new Gson().toJson(outcome);
    }
  }

  private static String contentDifference(Cell a, Cell b) {
    if (!CellUtil.matchingValue(a, b)) {
      return "another value: " + shown(a);
    }
    return PrivateCellUtil.matchingTags(a, b, a.getTagsLength(), b.getTagsLength()) ? null : "other tags: " + shown(a);
  }

  private static String shown(Cell cell) {
    return CellUtil.getCellKeyAsString(cell);
  }
}
