package walferry.embedded;

import com.google.gson.Gson;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.security.PrivilegedExceptionAction;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.ClusterMetrics;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.NamespaceDescriptor;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Append;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Durability;
import org.apache.hadoop.hbase.client.Increment;
import org.apache.hadoop.hbase.client.Mutation;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.RegionLocator;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Row;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.filter.FirstKeyOnlyFilter;
import org.apache.hadoop.hbase.security.User;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.security.UserGroupInformation;

/** One cluster's tables and data, through HBase's own client. */
public final class ClusterClient implements AutoCloseable {
  static final int SCAN_CACHING = 2000;
  private static final int BATCH = 1000;
  private static final int ROLL_TIMEOUT_S = 60;
  private static final byte[] TRAILER_MAGIC = Bytes.toBytes("LAWP");
  private static final int MOST_SCANNED_BYTES = 64 << 20;

  final Configuration conf;
  final Connection connection;
  private final User user;

  public ClusterClient(String hbaseSite) throws IOException {
    conf = HBaseConfiguration.create();
    conf.addResource(new Path(hbaseSite));
    // Otherwise a client neither sends nor gets the tags of cells.
    conf.set("hbase.client.rpc.codec", "org.apache.hadoop.hbase.codec.KeyValueCodecWithTags");
    user = user();
    connection = ConnectionFactory.createConnection(conf, user);
  }

  /** Who talks to the cluster: with Kerberos, the principal and keytab of the settings. */
  private User user() throws IOException {
    if (!"kerberos".equals(conf.get("hadoop.security.authentication"))) {
      return User.getCurrent();
    }
    UserGroupInformation.setConfiguration(conf);
    return User.create(UserGroupInformation.loginUserFromKeytabAndReturnUGI(
        conf.get("hbase.client.keytab.principal"), conf.get("hbase.client.keytab.file")));
  }

  @Override
  public void close() throws IOException {
    connection.close();
  }

  // ---- tables

  public void createTable(String name, Map<String, Integer> scopes, List<byte[]> splits, int versions, boolean deferSync)
      throws IOException {
    TableDescriptorBuilder table = TableDescriptorBuilder.newBuilder(TableName.valueOf(name));
    for (Map.Entry<String, Integer> family : scopes.entrySet()) {
      table.setColumnFamily(ColumnFamilyDescriptorBuilder.newBuilder(Bytes.toBytes(family.getKey()))
          .setScope(family.getValue()).setMaxVersions(versions).build());
    }
    if (deferSync) {
      table.setDurability(Durability.ASYNC_WAL);
    }
    try (Admin admin = connection.getAdmin()) {
      if (splits.isEmpty()) {
        admin.createTable(table.build());
      } else {
        admin.createTable(table.build(), splits.toArray(new byte[0][]));
      }
    }
  }

  /** Sets attributes of a family, such as TTL, by their names in HBase's shell. */
  public void alterFamily(String name, String family, Map<String, String> attributes) throws IOException {
    try (Admin admin = connection.getAdmin()) {
      ColumnFamilyDescriptorBuilder altered = ColumnFamilyDescriptorBuilder.newBuilder(
          admin.getDescriptor(TableName.valueOf(name)).getColumnFamily(Bytes.toBytes(family)));
      attributes.forEach(altered::setValue);
      admin.modifyColumnFamily(TableName.valueOf(name), altered.build());
    }
  }

  /** Sets attributes of a table, such as READONLY or coprocessor$1, by their names in HBase's shell. */
  public void alterTable(String name, Map<String, String> attributes) throws IOException {
    try (Admin admin = connection.getAdmin()) {
      TableDescriptorBuilder altered = TableDescriptorBuilder.newBuilder(admin.getDescriptor(TableName.valueOf(name)));
      attributes.forEach(altered::setValue);
      admin.modifyTable(altered.build());
    }
  }

  public void disableTable(String name) throws IOException {
    try (Admin admin = connection.getAdmin()) {
      admin.disableTable(TableName.valueOf(name));
    }
  }

  /** Switches compactions of a table on or off. */
  public void switchCompaction(String name, boolean on) throws IOException {
    try (Admin admin = connection.getAdmin()) {
      TableDescriptorBuilder altered = TableDescriptorBuilder.newBuilder(admin.getDescriptor(TableName.valueOf(name)));
      admin.modifyTable(altered.setCompactionEnabled(on).build());
    }
  }

  /** A table's schema as HBase prints it. */
  public String describe(String name) throws IOException {
    try (Admin admin = connection.getAdmin()) {
      return admin.getDescriptor(TableName.valueOf(name)).toString();
    }
  }

  /** Makes a table of links to the files of another one. */
  public void cloneTable(String name, String clone) throws IOException {
    try (Admin admin = connection.getAdmin()) {
      String snapshot = "of-" + clone.replace(':', '-');
      admin.snapshot(snapshot, TableName.valueOf(name));
      admin.cloneSnapshot(snapshot, TableName.valueOf(clone));
      admin.deleteSnapshot(snapshot);
    }
  }

  public void createNamespace(String name) throws IOException {
    try (Admin admin = connection.getAdmin()) {
      admin.createNamespace(NamespaceDescriptor.create(name).build());
    }
  }

  public void dropTable(String name) throws IOException {
    TableName table = TableName.valueOf(name);
    try (Admin admin = connection.getAdmin()) {
      if (admin.isTableEnabled(table)) {
        admin.disableTable(table);
      }
      admin.deleteTable(table);
    }
  }

  public void dropFamily(String table, String family) throws IOException {
    try (Admin admin = connection.getAdmin()) {
      admin.deleteColumnFamily(TableName.valueOf(table), Bytes.toBytes(family));
    }
  }

  public boolean tableExists(String name) throws IOException {
    try (Admin admin = connection.getAdmin()) {
      return admin.tableExists(TableName.valueOf(name));
    }
  }

  public void emptyTable(String name) throws IOException {
    TableName table = TableName.valueOf(name);
    try (Admin admin = connection.getAdmin()) {
      admin.disableTable(table);
      admin.truncateTable(table, true);
    }
  }

  public void flush(String name) throws IOException {
    try (Admin admin = connection.getAdmin()) {
      admin.flush(TableName.valueOf(name));
    }
  }

  public void majorCompact(String name) throws IOException {
    try (Admin admin = connection.getAdmin()) {
      admin.majorCompact(TableName.valueOf(name));
    }
  }

  // ---- servers and regions

  public String[] regionServers() throws IOException {
    try (Admin admin = connection.getAdmin()) {
      return liveServers(admin).stream().map(ServerName::toString).sorted().toArray(String[]::new);
    }
  }

  /** Does what Admin.getRegionServers does, by calls that HBase 1's masters know too. */
  private static Set<ServerName> liveServers(Admin admin) throws IOException {
    return admin.getClusterMetrics(EnumSet.of(ClusterMetrics.Option.LIVE_SERVERS)).getLiveServerMetrics().keySet();
  }

  /**
   * Roll the WALs of all RegionServers and wait until each WAL group has its new file and the one before is closed. A server
   * whose folder is gone has died, though the Master may not know it yet, and has nothing to roll. The call
   * itself may return before: the server takes its roller for idle whenever that thread waits for anything
   * (AbstractWALRoller.walRollFinished), and it closes the old file in the background.
   */
  public void rollWals() throws IOException, InterruptedException {
    try (Admin admin = connection.getAdmin()) {
      for (ServerName server : liveServers(admin)) {
        Map<String, Long> before = newestWals(server);
        if (before.isEmpty()) {
          continue;
        }
        admin.rollWALWriter(server);
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(ROLL_TIMEOUT_S);
        while (!allRolled(server, before)) {
          if (System.nanoTime() > deadline) {
            throw new IOException("WALs of " + server + " were not rolled within " + ROLL_TIMEOUT_S + " s: " + before);
          }
          Thread.sleep(20);
        }
      }
    }
  }

  private Path walRoot() {
    return new Path(conf.get("hbase.wal.dir", conf.get("hbase.rootdir")));
  }

  /** The time of the newest file of each WAL group of a server, without the meta table's; empty if the server's folder is gone. */
  private Map<String, Long> newestWals(ServerName server) throws IOException {
    Path folder = new Path(walRoot(), "WALs/" + server);
    Map<String, Long> newest = new HashMap<>();
    FileStatus[] files;
    try {
      files = filesOf(folder).listStatus(folder);
    } catch (FileNotFoundException splitOrArchived) {
      return newest;
    }
    for (FileStatus file : files) {
      String name = file.getPath().getName();
      if (!name.endsWith(".meta")) {
        int dot = name.lastIndexOf('.');
        newest.merge(name.substring(0, dot), Long.valueOf(name.substring(dot + 1)), Math::max);
      }
    }
    return newest;
  }

  private boolean allRolled(ServerName server, Map<String, Long> before) throws IOException {
    Map<String, Long> now = newestWals(server);
    for (Map.Entry<String, Long> group : before.entrySet()) {
      String name = group.getKey() + "." + group.getValue();
      boolean closed = endsWithTrailer(new Path(walRoot(), "WALs/" + server + "/" + name))
          || endsWithTrailer(new Path(walRoot(), "oldWALs/" + name))
          || endsWithTrailer(new Path(walRoot(), "oldWALs/" + server + "/" + name));
      if (!closed || now.getOrDefault(group.getKey(), 0L) <= group.getValue()) {
        return false;
      }
    }
    return true;
  }

  /** The file system as whoever talks to the cluster sees it. */
  private FileSystem filesOf(Path path) throws IOException {
    try {
      return user.runAs((PrivilegedExceptionAction<FileSystem>) () -> path.getFileSystem(conf));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException(e);
    }
  }

  private boolean endsWithTrailer(Path wal) throws IOException {
    byte[] end = new byte[TRAILER_MAGIC.length];
    FileSystem files = filesOf(wal);
    try (FSDataInputStream in = files.open(wal)) {
      in.readFully(Math.max(0, files.getFileStatus(wal).getLen() - end.length), end);
      return Arrays.equals(end, TRAILER_MAGIC);
    } catch (FileNotFoundException | EOFException movedOrUnfinished) {
      return false;
    }
  }

  public void switchBalancer(boolean on) throws IOException {
    try (Admin admin = connection.getAdmin()) {
      admin.balancerSwitch(on, true);
    }
  }

  public String regionsJson(String name) throws IOException {
    List<Map<String, String>> regions = new ArrayList<>();
    try (RegionLocator locator = connection.getRegionLocator(TableName.valueOf(name))) {
      locator.clearRegionLocationCache();
      for (HRegionLocation location : locator.getAllRegionLocations()) {
        Map<String, String> region = new LinkedHashMap<>();
        region.put("encoded_name", location.getRegion().getEncodedName());
        region.put("server", String.valueOf(location.getServerName()));
        region.put("start_key", Bytes.toHex(location.getRegion().getStartKey()));
        region.put("end_key", Bytes.toHex(location.getRegion().getEndKey()));
        regions.add(region);
      }
    }
    return new Gson().toJson(regions);
  }

  public void moveRegion(String encodedName, String server) throws IOException {
    try (Admin admin = connection.getAdmin()) {
      admin.move(Bytes.toBytes(encodedName), ServerName.valueOf(server));
    }
  }

  /** Splits a region at a row, and waits until both daughters are open. */
  public void splitRegion(String encodedName, byte[] row) throws Exception {
    try (Admin admin = connection.getAdmin()) {
      admin.splitRegionAsync(Bytes.toBytes(encodedName), row).get(60, TimeUnit.SECONDS);
    }
  }

  /** Merges two neighbouring regions, and waits until the merged one is open. */
  public void mergeRegions(String one, String other) throws Exception {
    try (Admin admin = connection.getAdmin()) {
      admin.mergeRegionsAsync(new byte[][] {Bytes.toBytes(one), Bytes.toBytes(other)}, false).get(60, TimeUnit.SECONDS);
    }
  }

  // ---- writing

  /** Applies mutations (see CellFormat), in batches or each by a call of its own. Returns how many there were. */
  public int write(String name, byte[] mutations, boolean oneByOne) throws IOException, InterruptedException {
    DataInputStream in = new DataInputStream(new ByteArrayInputStream(mutations));
    List<Row> batch = new ArrayList<>();
    int written = 0;
    try (Table table = connection.getTable(TableName.valueOf(name))) {
      while (in.available() > 0) {
        Mutation mutation = CellFormat.readMutation(in);
        written++;
        if (oneByOne) {
          apply(table, mutation);
          continue;
        }
        batch.add(mutation);
        if (batch.size() == BATCH || in.available() == 0) {
          table.batch(batch, new Object[batch.size()]);
          batch.clear();
        }
      }
    }
    return written;
  }

  private static void apply(Table table, Mutation mutation) throws IOException {
    if (mutation instanceof Put) {
      table.put((Put) mutation);
    } else if (mutation instanceof Delete) {
      table.delete((Delete) mutation);
    } else if (mutation instanceof Increment) {
      table.increment((Increment) mutation);
    } else {
      table.append((Append) mutation);
    }
  }

  // ---- reading

  Scan scan(List<String> families, boolean raw) {
    Scan scan = new Scan().setCaching(SCAN_CACHING).setRaw(raw).readAllVersions().setCacheBlocks(false);
    for (String family : families) {
      scan.addFamily(Bytes.toBytes(family));
    }
    return scan;
  }

  /** All cells of all versions in HBase's order, as CellFormat writes them. */
  public byte[] scanCells(String name, List<String> families, boolean raw) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    try (Table table = connection.getTable(TableName.valueOf(name));
        ResultScanner results = table.getScanner(scan(families, raw))) {
      for (Result result : results) {
        for (Cell cell : result.rawCells()) {
          CellFormat.writeCell(out, cell);
        }
        if (bytes.size() > MOST_SCANNED_BYTES) {
          throw new IOException("table " + name + " has more than " + MOST_SCANNED_BYTES + " bytes: too much to hand to Python");
        }
      }
    }
    return bytes.toByteArray();
  }

  public long countRows(String name) throws IOException {
    long rows = 0;
    Scan scan = new Scan().setCaching(10 * SCAN_CACHING).setCacheBlocks(false)
        .setFilter(new FirstKeyOnlyFilter());
    try (Table table = connection.getTable(TableName.valueOf(name)); ResultScanner results = table.getScanner(scan)) {
      while (results.next() != null) {
        rows++;
      }
    }
    return rows;
  }
}
