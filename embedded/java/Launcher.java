package walferry.embedded;

import java.util.Arrays;

/** Runs another class's main, and halts the JVM when its standard input ends, that is, when its parent is gone. */
public final class Launcher {
  private Launcher() {}

  public static void main(String[] args) throws Throwable {
    haltWhenInputEnds();
    Class<?> main = Class.forName(args[0]);
    main.getMethod("main", String[].class).invoke(null, (Object) Arrays.copyOfRange(args, 1, args.length));
  }

  private static void haltWhenInputEnds() {
    Thread watch = new Thread(() -> {
      try {
        while (System.in.read() >= 0) {
          // Nothing is ever sent; only the end matters.
        }
      } catch (java.io.IOException gone) {
        // The same as the end.
      }
      Runtime.getRuntime().halt(1);
    }, "ends-with-parent");
    watch.setDaemon(true);
    watch.start();
  }
}
