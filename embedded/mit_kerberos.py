"""Runs MIT's own KDC, if it is installed (Debian: krb5-kdc and krb5-admin-server). Its realms trust each other.

    with MitKerberos(folder, {"EAST.EXAMPLE": ["walferry"], "WEST.EXAMPLE": ["hbase/localhost"]}) as kerberos:

A fresh database is made at each start, with the same keys.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path

from embedded.kerberos import Kerberos
from embedded.processes import ClusterError, JavaProcess

TOOLS = ("krb5kdc", "kdb5_util", "kadmin.local")
TOOL_SECONDS = 60


def missing_tools() -> list[str]:
    """Return the missing ones of MIT's programs."""
    return [tool for tool in TOOLS if _find(tool) is None]


def _find(tool: str) -> str | None:
    """Find a program, also in folders that are often not on a user's PATH."""
    return shutil.which(tool, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin")))


class MitKerberos(Kerberos):
    """Like `Kerberos`, but with MIT's KDC. All realms trust each other. Raises ClusterError if a program of MIT's is missing."""

    serves = "commencing operation"

    def __init__(self, folder: Path, realms: Mapping[str, Sequence[str]]) -> None:
        super().__init__(folder, realms)
        if missing := missing_tools():
            raise ClusterError(f"{', '.join(missing)} is not installed: on Debian, install krb5-kdc and krb5-admin-server")
        self._trust = {f"krbtgt/{of}@{by}": secrets.token_hex(16) for of, by in permutations(realms, 2)}

    def _launch(self, realm: str, port: int) -> JavaProcess:
        work = self.folder / realm
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=0o700)
        (work / "kdc.conf").write_text(
            f'[kdcdefaults]\n  kdc_listen = ""\n  kdc_tcp_listen = 127.0.0.1:{port}\n'
            f"[realms]\n  {realm} = {{\n    database_name = {work}/principal\n    key_stash_file = {work}/stash\n  }}\n"
            "[logging]\n  default = STDERR\n"
        )
        self._run(work, ["kdb5_util", "-r", realm, "create", "-s", "-P", secrets.token_hex(16)])
        own = self._in(realm)
        lines = [f"addprinc -pw {password} {principal}" for principal, password in (*own, *self._trust.items())]
        lines += [f"ktadd -norandkey -k {self.keytab(principal)} {principal}" for principal, _ in own]
        self._run(work, ["kadmin.local", "-r", realm], "\n".join(lines) + "\n")
        log = self.folder / f"kdc-{realm}.log"
        command = [str(_find("krb5kdc")), "-n", "-r", realm, "-P", str(work / "pid")]
        with log.open("wb") as out:
            popen = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, env=self._environment(work), process_group=0
            )
        return JavaProcess(f"kdc-{realm}", popen, log)

    def _environment(self, work: Path) -> dict[str, str]:
        return {**os.environ, **self.environment, "KRB5_KDC_PROFILE": str(work / "kdc.conf")}

    def _run(self, work: Path, command: list[str], lines: str = "") -> None:
        """Run a program of MIT's with lines as its input. Raises ClusterError if it fails."""
        command[0] = str(_find(command[0]))
        done = subprocess.run(
            command, input=lines, env=self._environment(work), capture_output=True, text=True, timeout=TOOL_SECONDS, check=False
        )  # fmt: skip
        if done.returncode:
            raise ClusterError(f"{Path(command[0]).name} failed: {done.stderr.strip()[-1000:]}")
