package walferry.embedded;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;

/**
 * A Kerberos server of one realm that keeps everything in memory. Arguments: realm, port, folder to work in, and a file with a line
 * for each principal: its name, its password, and the keytab to write, with tabs between them.
 */
public final class Kdc {
  private Kdc() {}

  public static void main(String[] args) throws Exception {
    SimpleKdcServer server = new SimpleKdcServer();
    server.setKdcRealm(args[0]);
    server.setKdcHost("localhost");
    server.setKdcTcpPort(Integer.parseInt(args[1]));
    server.setAllowUdp(false);
    server.setWorkDir(new File(args[2]));
    server.init();
    server.start();
    for (String line : Files.readAllLines(Path.of(args[3]))) {
      String[] words = line.split("\t");
      server.createPrincipal(words[0], words[1]);
      server.exportPrincipal(words[0], new File(words[2]));
    }
    System.out.println("the KDC serves " + args[0]);
    Thread.currentThread().join();
  }
}
