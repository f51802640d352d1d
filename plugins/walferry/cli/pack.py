"""`walferry pack`: packs an environment for Spark's executors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from walferry.cli.show import WELL, put, tell

TARGET = "walferry-environment.tar.gz"


@click.command("pack")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path), default=TARGET)
@click.option(
    "--python", type=click.Path(path_type=Path), default=None, metavar="PATH",
    help="Where the executors' machines have this version of Python (default: where it is here).",
)  # fmt: skip
def pack(target: Path, python: Path | None) -> int:
    """Pack the packages that Spark's executors need into TARGET.

    TARGET is walferry-environment.tar.gz by default.

    Executors on machines with Spark and the same version of Python, but without these packages, get them with a job:

    \b
        spark.archives         hdfs:///walferry-environment.tar.gz#environment
        spark.pyspark.python   ./environment/bin/python

    The library itself travels with each job. So pack again only after an upgrade of a package or of Python.
    """
    from walferry.jobs.environment import NAME, PYTHON
    from walferry.jobs.environment import pack as write

    if not target.parent.is_dir():
        raise click.UsageError(f"there is no folder {target.parent}")
    base = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    packages = write(target, python or base, lambda name, done, count: tell(f"{done} of {count}: {name}"))
    put(f"{target}: {len(packages)} packages for {python or base}, {target.stat().st_size >> 20} MB")
    put(f"spark.archives={target}#{NAME}")
    put(f"spark.pyspark.python={PYTHON}")
    return WELL
