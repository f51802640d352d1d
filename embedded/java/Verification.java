package walferry.embedded;

import com.google.gson.Gson;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.mapreduce.replication.VerifyReplication;
import org.apache.hadoop.mapreduce.Counter;
import org.apache.hadoop.mapreduce.Job;

/** HBase's own VerifyReplication, run by MapReduce's local runner in this JVM. */
public final class Verification {
  private Verification() {}

  /** JSON of the counters (GOODROWS, BADROWS and why); `peer` is a peer id or a cluster key. */
  public static String verifyJson(ClusterClient client, String peer, String table, String families, String folder) throws Exception {
    Configuration conf = HBaseConfiguration.create(client.conf);
    conf.set("mapreduce.framework.name", "local");
    conf.set("hadoop.tmp.dir", folder);
    conf.set("mapreduce.jobtracker.staging.root.dir", folder + "/staging");
    conf.setInt("hbase.mapreduce.scan.cachedrows", ClusterClient.SCAN_CACHING);
    conf.setBoolean("mapreduce.map.speculative", false);
    conf.setInt("mapreduce.local.map.tasks.maximum", Runtime.getRuntime().availableProcessors());
    String[] args = families.isEmpty() ? new String[] {peer, table} : new String[] {"--families=" + families, peer, table};
    Job job = new VerifyReplication().createSubmittableJob(conf, args);
    if (job == null) {
      throw new IOException("VerifyReplication refused its arguments: " + String.join(" ", args));
    }
    if (!job.waitForCompletion(false)) {
      throw new IOException("VerifyReplication failed: " + job.getStatus().getFailureInfo());
    }
    Map<String, Long> counters = new LinkedHashMap<>();
    for (Counter counter : job.getCounters().getGroup(VerifyReplication.Verifier.Counters.class.getName())) {
      counters.put(counter.getName(), counter.getValue());
    }
    return new Gson().toJson(counters);
  }
}
