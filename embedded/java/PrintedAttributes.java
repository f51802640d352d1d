package walferry.embedded;

import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.hadoop.hbase.client.Mutation;
import org.apache.hadoop.hbase.coprocessor.ObserverContext;
import org.apache.hadoop.hbase.coprocessor.RegionCoprocessor;
import org.apache.hadoop.hbase.coprocessor.RegionCoprocessorEnvironment;
import org.apache.hadoop.hbase.coprocessor.RegionObserver;
import org.apache.hadoop.hbase.regionserver.MiniBatchOperationInProgress;
import org.apache.hadoop.hbase.util.Bytes;

/** A coprocessor of regions that prints the attributes of mutations, such as Phoenix's, without those of HBase's replication. */
public final class PrintedAttributes implements RegionCoprocessor, RegionObserver {
  @Override
  public Optional<RegionObserver> getRegionObserver() {
    return Optional.of(this);
  }

  @Override
  public void preBatchMutate(
      ObserverContext<RegionCoprocessorEnvironment> context, MiniBatchOperationInProgress<Mutation> batch) {
    String table = context.getEnvironment().getRegionInfo().getTable().getNameAsString();
    for (int i = 0; i < batch.size(); i++) {
      Map<String, String> printed = new TreeMap<>();
      batch.getOperation(i).getAttributesMap().forEach((name, value) -> printed.put(name, Bytes.toStringBinary(value)));
      printed.remove("_cs.id");
      if (!printed.isEmpty()) {
        System.out.println("attributes of " + table + ": " + printed);
      }
    }
  }
}
