"""`python -m embedded [set …]` fetches sets of jars (default: those of set-up) and compiles the Java helpers, so that later
starts find them.

`python -m embedded --check` only looks for the JDK. It needs no package, so it can run before anything is installed.
"""

import sys

from embedded.ivy import JarsMissingError
from embedded.jars import HBASE_1, HBASE_2, JAR_SETS, SET_UP, hbase_classpath, py4j_jar
from embedded.java import JavaMissingError, find_java, find_javac, helper_classes, launcher_classes


def main(arguments: list[str]) -> int:
    check_only = arguments == ["--check"]
    if not check_only and (unknown := set(arguments) - set(JAR_SETS)):
        print(f"there are no jars {', '.join(sorted(unknown))}, only {', '.join(JAR_SETS)}", file=sys.stderr)
        return 2
    try:
        find_java()
        find_javac()
        if not check_only:
            set_up(arguments or [jars.name for jars in SET_UP])
    except (JavaMissingError, JarsMissingError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what has arrived is kept", file=sys.stderr)
        return 130
    return 0


def set_up(names: list[str]) -> None:
    for name in names:
        hbase_classpath(JAR_SETS[name])
    if HBASE_2.name in names:
        helper_classes([*hbase_classpath(), py4j_jar()])
    if HBASE_1.name in names:
        launcher_classes()


sys.exit(main(sys.argv[1:]))
