"""The demo's clusters with Kerberos: a KDC, HDFS, ZooKeeper by SASL, HBase with protected RPC, and the peer cluster inside TLS
too."""

from __future__ import annotations

import json
import os
from ctypes.util import find_library
from pathlib import Path
from typing import Any

from demo.site import REGIONSERVERS, Site
from embedded.certificates import Authority
from embedded.distributed import ClusterOptions
from embedded.hdfs import Hdfs, HdfsSecurity
from embedded.kerberos import Kerberos
from embedded.processes import ClusterError
from embedded.secured import HBASE, principals, secured, secured_options, tls_settings
from embedded.standalone import StandaloneCluster

REALM = "EXAMPLE.COM"
# HBase's own short name, "hbase": its WALs' folders on HDFS, and its znodes, belong to that user alone.
WALFERRY = "hbase/walferry"
SOURCE_PROTECTION, PEER_PROTECTION, HDFS_PROTECTION = "integrity", "privacy", "privacy"
PEER_CONN_ID = "hbase_peer"


class SecuredSite(Site):
    """The same two clusters in one realm. The source's files are on an HDFS of its own."""

    peer_conn_id = PEER_CONN_ID
    begins_with = "a KDC, HDFS and ZooKeeper"

    def __init__(self, folder: Path) -> None:
        self.kerberos = Kerberos(folder / "kdc", {REALM: [*principals(), WALFERRY]})
        self.hdfs = Hdfs(folder / "hdfs", security=HdfsSecurity(self.kerberos, f"{HBASE}@{REALM}", HDFS_PROTECTION))
        self._authority = Authority(folder / "authority")
        super().__init__(folder)

    @property
    def jvm_options(self) -> list[str]:
        return self.kerberos.jvm_options

    @property
    def environment(self) -> dict[str, str]:
        # The peer cluster's connection has no host, so it is good for whichever cluster a peer names.
        peer_cluster = {**self._identity, "hosts": "localhost", "protection": PEER_PROTECTION, "tls_ca": str(self._authority.pem)}
        return {
            **self.kerberos.environment,
            f"AIRFLOW_CONN_{PEER_CONN_ID.upper()}": json.dumps({"conn_type": "hbase_source", "extra": peer_cluster}),
        }

    @property
    def protection(self) -> list[str]:
        return [
            f"Kerberos: a KDC of realm {REALM}; ZooKeeper, HDFS and HBase have keytabs, and Walferry is {WALFERRY}@{REALM}",
            f"Protected: RPC of the source {SOURCE_PROTECTION}, the peer cluster's {PEER_PROTECTION} in TLS, HDFS "
            f"{HDFS_PROTECTION}",
        ]

    @property
    def _identity(self) -> dict[str, str]:
        principal = f"{WALFERRY}@{REALM}"
        return {"principal": principal, "keytab": str(self.kerberos.keytab(principal))}

    def launch(self) -> None:
        self.kerberos.start()
        self.hdfs.start()
        super().launch()

    def kill(self) -> None:
        super().kill()
        self.hdfs.kill()
        self.kerberos.stop()

    def _files(self) -> Hdfs:
        return self.hdfs

    def _source_options(self) -> ClusterOptions:
        folder = self.folder / "source"
        return secured_options(folder, self.kerberos, REALM, protection=SOURCE_PROTECTION, options=super()._source_options())

    def _peer_cluster(self) -> StandaloneCluster:
        certificate = self._authority.certificate("peer_cluster", "localhost")
        conf = {"hbase.regionservers": str(REGIONSERVERS), **tls_settings(self._authority, certificate)}
        return secured(
            self.folder / "peer_cluster",
            self.kerberos,
            REALM,
            protection=PEER_PROTECTION,
            conf=conf,
            heap="640m",
            name="peer_cluster",
        )

    def _extra(self) -> dict[str, Any]:
        return {**super()._extra(), **self._identity, "protection": SOURCE_PROTECTION}


def site_asked_for(folder: Path) -> Site:
    """The demo's clusters: with SECURE=1 the secured ones. Raises ClusterError if this machine has not what they need."""
    if os.environ.get("SECURE") != "1":
        return Site(folder)
    if find_library("gssapi_krb5") is None:  # the KDC is among HBase's jars; Python's side is the system's
        raise ClusterError("SECURE=1 needs MIT's Kerberos libraries: libgssapi-krb5-2 on Debian, krb5-libs on Red Hat")
    return SecuredSite(folder)
