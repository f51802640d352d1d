package walferry.embedded;

import java.net.InetAddress;
import py4j.GatewayServer;

/** Lets Python call the classes of this package. It listens on the loopback address only and asks each connection for a token. */
public final class ClientGateway {
  static final String TOKEN_VARIABLE = "WALFERRY_GATEWAY_TOKEN";
  private static final int TIMEOUT_MS = 0; // Python bounds each call; an idle connection may stay open.

  private ClientGateway() {}

  public static void main(String[] args) {
    GatewayServer server = new GatewayServer.GatewayServerBuilder()
        .javaPort(0)
        .javaAddress(InetAddress.getLoopbackAddress())
        .authToken(System.getenv(TOKEN_VARIABLE))
        .connectTimeout(TIMEOUT_MS)
        .readTimeout(TIMEOUT_MS)
        .build();
    server.start(true);
    System.out.println("gateway listens on port " + server.getListeningPort());
  }
}
