package walferry.embedded;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hbase.ArrayBackedTag;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.ExtendedCellBuilderFactory;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.KeyValue;
import org.apache.hadoop.hbase.CellBuilderType;
import org.apache.hadoop.hbase.PrivateCellUtil;
import org.apache.hadoop.hbase.Tag;
import org.apache.hadoop.hbase.client.Append;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Increment;
import org.apache.hadoop.hbase.client.Mutation;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.security.visibility.CellVisibility;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * How cells and mutations travel between Python and here, big-endian; the other end is embedded/wire.py.
 *
 * <pre>
 * bytes    := int32 length | content
 * cell     := bytes row | bytes family | bytes qualifier | int64 timestamp | int8 type | bytes value | bytes tags
 * mutation := int8 kind | bytes row | int64 ttl or -1 | bytes visibility (empty: none) | int32 count | edit*
 * edit     := int8 type | bytes family | bytes qualifier | int64 timestamp or -1 | bytes value | int32 count | tag*
 * tag      := int8 type | bytes content
 * </pre>
 */
final class CellFormat {
  private CellFormat() {}

  static void writeBytes(DataOutputStream out, byte[] content) throws IOException {
    out.writeInt(content.length);
    out.write(content);
  }

  private static byte[] readBytes(DataInputStream in) throws IOException {
    byte[] content = new byte[in.readInt()];
    in.readFully(content);
    return content;
  }

  static void writeCell(DataOutputStream out, Cell cell) throws IOException {
    writeBytes(out, CellUtil.cloneRow(cell));
    writeBytes(out, CellUtil.cloneFamily(cell));
    writeBytes(out, CellUtil.cloneQualifier(cell));
    out.writeLong(cell.getTimestamp());
    out.writeByte(cell.getTypeByte());
    writeBytes(out, CellUtil.cloneValue(cell));
    writeBytes(out, PrivateCellUtil.cloneTags(cell));
  }

  static Mutation readMutation(DataInputStream in) throws IOException {
    char kind = (char) in.readByte();
    byte[] row = readBytes(in);
    long ttl = in.readLong();
    Mutation mutation;
    switch (kind) {
      case 'P': mutation = new Put(row); break;
      case 'D': mutation = new Delete(row); break;
      case 'I': mutation = new Increment(row); break;
      case 'A': mutation = new Append(row); break;
      default: throw new IOException("unknown kind of mutation: " + kind);
    }
    if (ttl >= 0) {
      mutation.setTTL(ttl);
    }
    byte[] visibility = readBytes(in);
    if (visibility.length > 0) {
      mutation.setCellVisibility(new CellVisibility(Bytes.toString(visibility)));
    }
    int edits = in.readInt();
    for (int i = 0; i < edits; i++) {
      readEdit(in, mutation, row);
    }
    return mutation;
  }

  private static void readEdit(DataInputStream in, Mutation mutation, byte[] row) throws IOException {
    char type = (char) in.readByte();
    byte[] family = readBytes(in);
    byte[] qualifier = readBytes(in);
    long given = in.readLong();
    byte[] value = readBytes(in);
    List<Tag> tags = new ArrayList<>();
    for (int left = in.readInt(); left > 0; left--) {
      tags.add(new ArrayBackedTag(in.readByte(), readBytes(in)));
    }
    long timestamp = given < 0 ? HConstants.LATEST_TIMESTAMP : given;
    if (mutation instanceof Increment) {
      ((Increment) mutation).addColumn(family, qualifier, Bytes.toLong(value));
    } else if (mutation instanceof Append) {
      ((Append) mutation).addColumn(family, qualifier, value);
    } else if (mutation instanceof Delete) {
      addDelete((Delete) mutation, type, family, qualifier, timestamp);
    } else {
      ((Put) mutation).add(ExtendedCellBuilderFactory.create(CellBuilderType.SHALLOW_COPY)
          .setRow(row).setFamily(family).setQualifier(qualifier).setTimestamp(timestamp)
          .setType(typeOfPut(type)).setValue(value).setTags(tags).build());
    }
  }

  /** The client's own builders make puts only, but the servers accept these two types as well. */
  private static byte typeOfPut(char type) throws IOException {
    switch (type) {
      case 'p': return KeyValue.Type.Put.getCode();
      case 'm': return KeyValue.Type.Minimum.getCode();
      case 'M': return KeyValue.Type.Maximum.getCode();
      default: throw new IOException("unknown type of a put's cell: " + type);
    }
  }

  private static void addDelete(Delete delete, char type, byte[] family, byte[] qualifier, long timestamp) throws IOException {
    switch (type) {
      case 'r': delete.setTimestamp(timestamp); break;
      case 'f': delete.addFamily(family, timestamp); break;
      case 'F': delete.addFamilyVersion(family, timestamp); break;
      case 'c': delete.addColumns(family, qualifier, timestamp); break;
      case 'C': delete.addColumn(family, qualifier, timestamp); break;
      default: throw new IOException("unknown kind of delete: " + type);
    }
  }
}
