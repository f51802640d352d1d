"""`walferry compile`: compiles the library's kernels beforehand."""

from __future__ import annotations

import platform

import click

from walferry.cli.show import WELL, put, tell


@click.command("compile")
@click.option("--here", is_flag=True, help="Only for the processor of this machine.")
def compile(here: bool) -> int:
    """Compile the library's kernels, so that jobs need not.

    Spark's executors get the code with the library. Without it, each machine compiles the kernels when it first needs them, which
    takes up to a minute of processor time. The code is for processors with the instructions of x86-64-v3 (most since 2015) and
    x86-64-v2, or for arm64, and for the installed versions of Python and numba. So run this again after each of them is upgraded.
    """
    from walferry.base.kernels.compiled import LEVELS, levels
    from walferry.jobs.prebuild import prebuild

    wanted = levels()[:1] if here or platform.machine() != "x86_64" else list(LEVELS)
    if not wanted:
        tell(f"the kernels cannot be compiled for other machines of the kind of this one ({platform.machine()})")
    count = prebuild(wanted, lambda level, done, modules: tell(f"{level}: {done} of {modules} modules"))
    put(f"{count} kernels are compiled for {', '.join(wanted) or 'no processors'}")
    return WELL
