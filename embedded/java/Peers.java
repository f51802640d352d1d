package walferry.embedded;

import com.google.gson.Gson;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.replication.ReplicationPeerConfig;
import org.apache.hadoop.hbase.replication.ReplicationPeerConfigBuilder;
import org.apache.hadoop.hbase.replication.ReplicationPeerDescription;

/** Replication peers, through the Master. */
public final class Peers {
  private Peers() {}

  /** Adds a peer. `tableFamilies` maps tables to families, where an empty list means all of them; null means all user tables. */
  public static void add(ClusterClient client, String id, String clusterKey, boolean enabled, Map<String, String> configuration,
      Map<String, List<String>> tableFamilies, boolean serial) throws IOException {
    ReplicationPeerConfigBuilder peer = ReplicationPeerConfig.newBuilder().setClusterKey(clusterKey).setSerial(serial);
    configuration.forEach(peer::putConfiguration);
    if (tableFamilies != null) {
      Map<TableName, List<String>> tables = new HashMap<>();
      tableFamilies.forEach((table, families) -> tables.put(TableName.valueOf(table), families.isEmpty() ? null : new ArrayList<>(families)));
      peer.setReplicateAllUserTables(false).setTableCFsMap(tables);
    }
    try (Admin admin = client.connection.getAdmin()) {
      admin.addReplicationPeer(id, peer.build(), enabled);
    }
  }

  public static void putConfiguration(ClusterClient client, String id, Map<String, String> configuration) throws IOException {
    try (Admin admin = client.connection.getAdmin()) {
      ReplicationPeerConfigBuilder peer = ReplicationPeerConfig.newBuilder(admin.getReplicationPeerConfig(id));
      configuration.forEach(peer::putConfiguration);
      admin.updateReplicationPeerConfig(id, peer.build());
    }
  }

  public static void enable(ClusterClient client, String id) throws IOException {
    try (Admin admin = client.connection.getAdmin()) {
      admin.enableReplicationPeer(id);
    }
  }

  public static void disable(ClusterClient client, String id) throws IOException {
    try (Admin admin = client.connection.getAdmin()) {
      admin.disableReplicationPeer(id);
    }
  }

  public static void remove(ClusterClient client, String id) throws IOException {
    try (Admin admin = client.connection.getAdmin()) {
      admin.removeReplicationPeer(id);
    }
  }

  public static String listJson(ClusterClient client) throws IOException {
    List<Map<String, Object>> peers = new ArrayList<>();
    try (Admin admin = client.connection.getAdmin()) {
      for (ReplicationPeerDescription description : admin.listReplicationPeers()) {
        ReplicationPeerConfig config = description.getPeerConfig();
        Map<String, Object> peer = new LinkedHashMap<>();
        peer.put("id", description.getPeerId());
        peer.put("enabled", description.isEnabled());
        peer.put("cluster_key", config.getClusterKey());
        peer.put("configuration", config.getConfiguration());
        peer.put("replicate_all", config.replicateAllUserTables());
        peer.put("serial", config.isSerial());
        peers.add(peer);
      }
    }
    return new Gson().toJson(peers);
  }
}
