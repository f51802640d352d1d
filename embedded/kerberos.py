"""Runs Kerby's KDC, which is among HBase's jars, so that nothing has to be installed for Kerberos.

    with Kerberos(folder, {"EXAMPLE.COM": ["hbase/localhost", "walferry"]}) as kerberos:
        kerberos.keytab("walferry@EXAMPLE.COM")

Python's side (the MIT libraries) finds the realms through the environment, and JVMs through a system property: see `environment`
and `jvm_options`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from embedded.processes import SMALL_JVM, ClusterError, JavaProcess, free_port, start_java, wait_until

START_TIMEOUT_SECONDS = 120


class Kerberos:
    """KDCs of some realms, each with some principals ("hbase/localhost"). Each has its own JVM: Kerby's settings are static.

    Ports, keys and keytabs are kept over `stop()` and `start()`.
    """

    serves = "the KDC serves"  # a KDC prints this when it serves

    def __init__(self, folder: Path, realms: Mapping[str, Sequence[str]]) -> None:
        self.folder = folder
        self.krb5_conf = folder / "krb5.conf"
        self.ticket_seconds: int | None = None  # the lifetime of tickets for MIT's libraries; None: a day
        self._ports = {realm: free_port() for realm in realms}
        self._passwords = {f"{name}@{realm}": secrets.token_hex(16) for realm, names in realms.items() for name in names}
        self._processes: list[JavaProcess] = []

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that processes with MIT's libraries need to find the KDCs."""
        return {"KRB5_CONFIG": str(self.krb5_conf)}

    @property
    def jvm_options(self) -> list[str]:
        """The options that JVMs need to find the KDCs, and to look for servers in the first realm."""
        return self.jvm_options_in(next(iter(self._ports)))

    def jvm_options_in(self, realm: str) -> list[str]:
        """Return JVM options to find the KDCs, and to look for servers in `realm`, which Java takes only from its settings."""
        return [f"-Djava.security.krb5.conf={self._settings_of(realm)}", "-Dsun.security.krb5.disableReferrals=true"]

    def keytab(self, principal: str) -> Path:
        """Return the keytab of a principal with its realm. Raises ClusterError if the KDCs do not have that principal."""
        if principal not in self._passwords:
            raise ClusterError(f"the KDCs have no principal {principal}, only {', '.join(self._passwords)}")
        return self.folder / "keytabs" / (principal.replace("/", "_") + ".keytab")

    def change_key(self, principal: str) -> None:
        """Give a principal another key, and write a new keytab. Existing tickets of and for the principal stay as they are."""
        self.keytab(principal)  # raises for an unknown principal
        self._passwords[principal] = secrets.token_hex(16)
        self.stop()
        self.start()

    def start(self) -> None:
        """Start the KDCs and wait until they serve. Raises ClusterError with the end of the log."""
        (self.folder / "keytabs").mkdir(parents=True, exist_ok=True)
        self.write_settings()
        for keytab in map(self.keytab, self._passwords):
            keytab.unlink(missing_ok=True)  # a KDC would append to the file
        self._processes = [self._launch(realm, port) for realm, port in self._ports.items()]
        wait_until(
            lambda: all(self.serves in process.log_text() for process in self._processes),
            "the KDCs serve",
            processes=self._processes,
            timeout=START_TIMEOUT_SECONDS,
        )
        for principal in self._passwords:
            self.keytab(principal).chmod(0o600)

    def _launch(self, realm: str, port: int) -> JavaProcess:
        """Start a realm's KDC, with its principals' keytabs. It prints `serves` once it serves."""
        work = self.folder / realm
        work.mkdir(exist_ok=True)
        lines = [f"{principal}\t{password}\t{self.keytab(principal)}\n" for principal, password in self._in(realm)]
        plan = work / "principals"
        plan.touch(mode=0o600)
        plan.write_text("".join(lines))
        args = [realm, str(port), str(work), str(plan)]
        return start_java(f"kdc-{realm}", "walferry.embedded.Kdc", args, folder=self.folder, heap="96m", options=SMALL_JVM)

    def _in(self, realm: str) -> list[tuple[str, str]]:
        """Return the principals of a realm, each with its password."""
        return [(name, password) for name, password in self._passwords.items() if name.endswith(f"@{realm}")]

    def stop(self) -> None:
        for process in self._processes:
            process.kill()

    def __enter__(self) -> Kerberos:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def write_settings(self) -> None:
        """Write krb5.conf, and another one for the JVMs of each realm. Call this again after a change of `ticket_seconds`."""
        realms = "".join(f"  {realm} = {{\n    kdc = localhost:{port}\n  }}\n" for realm, port in self._ports.items())
        lifetime = f"  ticket_lifetime = {self.ticket_seconds}s\n" if self.ticket_seconds else ""
        for default in self._ports:
            self._settings_of(default).write_text(
                "[libdefaults]\n"
                f"  default_realm = {default}\n"
                "  dns_lookup_realm = false\n  dns_lookup_kdc = false\n  dns_canonicalize_hostname = false\n  rdns = false\n"
                f"  udp_preference_limit = 1\n{lifetime}"
                f"[realms]\n{realms}"
            )

    def _settings_of(self, realm: str) -> Path:
        return self.krb5_conf if realm == next(iter(self._ports)) else self.folder / f"krb5-{realm}.conf"
