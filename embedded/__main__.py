"""`python -m embedded` fetches HBase's jars and compiles the Java helpers, so that later starts find them."""

import sys

from embedded.jars import JarsMissingError, hbase_classpath, py4j_jar
from embedded.java import JavaMissingError, find_java, helper_classes


def main() -> int:
    try:
        find_java()
        helper_classes([*hbase_classpath(), py4j_jar()])
    except (JavaMissingError, JarsMissingError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


sys.exit(main())
