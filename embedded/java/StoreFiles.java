package walferry.embedded;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedSet;
import java.util.TreeSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.KeyValue;
import org.apache.hadoop.hbase.KeyValueUtil;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.io.compress.Compression;
import org.apache.hadoop.hbase.io.encoding.DataBlockEncoding;
import org.apache.hadoop.hbase.io.hfile.CacheConfig;
import org.apache.hadoop.hbase.io.hfile.HFileContextBuilder;
import org.apache.hadoop.hbase.io.hfile.HFilePrettyPrinter;
import org.apache.hadoop.hbase.regionserver.BloomType;
import org.apache.hadoop.hbase.regionserver.HStoreFile;
import org.apache.hadoop.hbase.regionserver.StoreFileReader;
import org.apache.hadoop.hbase.regionserver.StoreFileScanner;
import org.apache.hadoop.hbase.regionserver.StoreFileWriter;
import org.apache.hadoop.hbase.util.BloomFilterUtil;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.hbase.util.ChecksumType;

/**
 * HFiles by HBase's own code, without a cluster. Commands come on standard input, a line each of words that tabs separate, and are
 * answered by one.
 *
 * <pre>
 * write FILE CELLS [NAME=VALUE]*   writes the cells in the file CELLS by StoreFileWriter, as HFileOutputFormat2 does; answers the
 *                                  nanoseconds and the CPU nanoseconds that this took without reading CELLS
 * cells FILE CELLS                 reads all cells of an HFile to the file CELLS; answers how many they are
 * print FILE TEXT                  writes what HFilePrettyPrinter -v -m -k says to the file TEXT; answers its exit code
 * filter FILE CELLS                answers how many cells of the file CELLS have rows and columns that the bloom filter of FILE rules out
 * </pre>
 *
 * A file of cells has them one after the other: int32 keyLen, int32 valLen, key, value, uint16 tagsLen, tags.
 */
public final class StoreFiles {
  private StoreFiles() {}

  public static void main(String[] args) throws Exception {
    Configuration conf = HBaseConfiguration.create();
    conf.set("fs.defaultFS", "file:///");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    PrintStream answers = System.out;
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String answer;
      try {
        answer = answer(conf, line.split("\t"));
      } catch (Exception error) {
        error.printStackTrace();
        answer = "failed: " + error;
      }
      answers.println(answer.replace('\n', ' '));
    }
  }

  private static String answer(Configuration conf, String[] words) throws Exception {
    Path file = new Path(words[1]);
    switch (words[0]) {
      case "write": return write(conf, file, cells(words[2]), settings(words));
      case "cells": return read(conf, file, words[2]);
      case "print": return print(conf, words[1], words[2]);
      case "filter": return ruledOut(conf, file, cells(words[2]));
      default: throw new IOException("unknown command: " + words[0]);
    }
  }

  private static Map<String, String> settings(String[] words) {
    Map<String, String> settings = new HashMap<>();
    for (int i = 3; i < words.length; i++) {
      settings.put(words[i].split("=")[0], words[i].split("=")[1]);
    }
    return settings;
  }

  private static List<KeyValue> cells(String path) throws IOException {
    byte[] data = Files.readAllBytes(Paths.get(path));
    ByteBuffer lengths = ByteBuffer.wrap(data);
    List<KeyValue> cells = new ArrayList<>();
    for (int at = 0; at < data.length;) {
      int length = 8 + lengths.getInt(at) + lengths.getInt(at + 4);
      int tags = lengths.getShort(at + length);
      cells.add(new KeyValue(data, at, tags == 0 ? length : length + 2 + tags));
      at += length + 2 + tags;
    }
    return cells;
  }

  private static String write(Configuration common, Path file, List<KeyValue> cells, Map<String, String> settings)
      throws IOException {
    Configuration conf = new Configuration(common);
    BloomType bloom = BloomType.valueOf(settings.get("bloom"));
    if (bloom == BloomType.ROWPREFIX_FIXED_LENGTH) {
      conf.set(BloomFilterUtil.PREFIX_LENGTH_KEY, settings.get("prefix"));
    }
    long created = Long.parseLong(settings.get("created"));
    HFileContextBuilder context = new HFileContextBuilder()
        .withCompression(Compression.getCompressionAlgorithmByName(settings.get("compression").toLowerCase()))
        .withDataBlockEncoding(DataBlockEncoding.valueOf(settings.get("encoding")))
        .withBlockSize(Integer.parseInt(settings.get("block")))
        .withChecksumType(ChecksumType.nameToType(settings.get("checksum")))
        .withIncludesTags(true).withIncludesMvcc(false).withCreateTime(created);
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long cpuStarted = threads.getCurrentThreadCpuTime();
    long started = System.nanoTime();
    StoreFileWriter writer = new StoreFileWriter.Builder(conf, CacheConfig.DISABLED, file.getFileSystem(conf))
        .withFilePath(file).withBloomType(bloom).withFileContext(context.build()).build();
    for (KeyValue cell : cells) {
      writer.append(cell);
    }
    writer.appendFileInfo(HStoreFile.BULKLOAD_TIME_KEY, Bytes.toBytes(created));
    writer.appendFileInfo(HStoreFile.BULKLOAD_TASK_KEY, Bytes.toBytes(settings.get("task")));
    writer.appendFileInfo(HStoreFile.MAJOR_COMPACTION_KEY, Bytes.toBytes(false));
    writer.appendFileInfo(HStoreFile.EXCLUDE_FROM_MINOR_COMPACTION_KEY, Bytes.toBytes(false));
    writer.appendTrackedTimestampsToMetadata();
    writer.close();
    long nanoseconds = System.nanoTime() - started;
    return nanoseconds + " " + (threads.getCurrentThreadCpuTime() - cpuStarted);
  }

  private static HStoreFile open(Configuration conf, Path file) throws IOException {
    HStoreFile store = new HStoreFile(file.getFileSystem(conf), file, conf, CacheConfig.DISABLED, BloomType.ROW, true);
    store.initReader();
    return store;
  }

  private static String read(Configuration conf, Path file, String to) throws IOException {
    HStoreFile store = open(conf, file);
    int count = 0;
    try (DataOutputStream out = new DataOutputStream(Files.newOutputStream(Paths.get(to)))) {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      StoreFileScanner scanner = store.getPreadScanner(false, Long.MAX_VALUE, 0, false);
      scanner.seek(KeyValue.LOWESTKEY);
      for (Cell cell = scanner.next(); cell != null; cell = scanner.next()) {
        bytes.reset();
        KeyValue flat = KeyValueUtil.ensureKeyValue(cell);
        flat.write(bytes, false);
        out.write(bytes.toByteArray());
        out.writeShort(flat.getTagsLength());
        out.write(flat.getTagsArray(), flat.getTagsOffset(), flat.getTagsLength());
        count++;
      }
      scanner.close();
    }
    store.closeStoreFile(true);
    return String.valueOf(count);
  }

  private static String print(Configuration conf, String file, String to) throws Exception {
    try (PrintStream out = new PrintStream(to, "UTF-8")) {
      PrintStream standard = System.out;
      PrintStream errors = System.err;
      System.setOut(out);
      System.setErr(out);
      try {
        HFilePrettyPrinter printer = new HFilePrettyPrinter(conf);
        printer.setPrintStreams(out, out);
        return String.valueOf(printer.run(new String[] {"-v", "-m", "-k", "-a", "-f", file}));
      } finally {
        System.setOut(standard);
        System.setErr(errors);
      }
    }
  }

  private static String ruledOut(Configuration conf, Path file, List<KeyValue> cells) throws Exception {
    HStoreFile store = open(conf, file);
    Method passes = StoreFileReader.class.getDeclaredMethod("passesBloomFilter", Scan.class, SortedSet.class);
    passes.setAccessible(true); // only HBase's own package may ask
    int ruledOut = 0;
    for (KeyValue cell : cells) {
      Scan scan = new Scan(new Get(CellUtil.cloneRow(cell)));
      SortedSet<byte[]> columns = new TreeSet<>(Bytes.BYTES_COMPARATOR);
      columns.add(CellUtil.cloneQualifier(cell));
      ruledOut += (boolean) passes.invoke(store.getReader(), scan, columns) ? 0 : 1;
    }
    store.closeStoreFile(true);
    return String.valueOf(ruledOut);
  }
}
