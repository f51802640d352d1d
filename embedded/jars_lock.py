"""`python -m embedded.jars_lock [set …]` writes jars.lock: the jars that sets of `embedded.jars` (default: all) need, by the POMs
in Maven Central.

Run it after a version was changed in `embedded.jars`. Set-up reads jars.lock and no POM. Each set takes a minute or two.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from embedded.ivy import JarsMissingError, module_xml, run_ivy
from embedded.jars import JAR_SETS, LOCK, JarSet, lock_lines

HEADER = """\
# The jars that `embedded` runs: group:name:version[:classifier], SHA-256, bytes. Written by `python -m embedded.jars_lock`.
"""


def main(names: Sequence[str]) -> int:
    sections = lock_lines()
    for jars in JAR_SETS.values():
        if jars.name in names or not names:
            print(f"{jars.title}: resolving", flush=True)
            with tempfile.TemporaryDirectory(prefix="walferry-lock-") as folder:
                sections[jars.name] = _resolved(jars, Path(folder))
    text = "\n\n".join("\n".join([f"[{name}]", *sections[name]]) for name in JAR_SETS if name in sections)
    LOCK.write_text(f"{HEADER}\n{text}\n", encoding="utf-8")
    return 0


def _resolved(jars: JarSet, folder: Path) -> list[str]:
    """Return the lines of `jars`. Ivy copies the jars to files whose names contain the lines' coordinates."""
    pattern = f"{folder}/out/[organisation]:[artifact]:[revision](:[classifier])"
    transitive = str(jars.transitive).lower()
    dependencies = [
        f"<dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)} transitive='{transitive}' "
        "conf='default->default'/>"
        for group, name, version in (coordinate.split(":") for coordinate in jars.coordinates)
    ]
    excludes = [
        f"<exclude org={quoteattr(group)} module={quoteattr(name)} matcher='exactOrRegexp'/>"
        for group, name in (module.split(":") for module in jars.excluded)
    ]
    log = folder / "ivy.log"
    module = module_xml(jars.name, dependencies + excludes)
    if run_ivy(module, folder / "cache", log=log, poms=True, arguments=("-retrieve", pattern)).wait() != 0:
        raise JarsMissingError(f"{jars.title} could not be resolved:\n{log.read_text(errors='replace')[-3000:]}")
    return [_line(path) for path in sorted((folder / "out").iterdir())]


def _line(path: Path) -> str:
    content = path.read_bytes()
    return f"{path.name} {hashlib.sha256(content).hexdigest()} {len(content)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
