"""Bulk-loads HFiles: a RegionServer takes them into a region (ClientService in Client.proto, SecureBulkLoadManager).

    PrepareBulkLoad     the server makes a folder, into which every user may write. Its path is the token
    BulkLoadHFile       the server moves the files into the region. Each call gets one sequence number: its cells count as written
                        after all that the region has, and before all that comes later
    CleanupBulkLoad     the server deletes the folder

With AccessController the user needs CREATE or ADMIN on the table.
"""

from __future__ import annotations

from collections.abc import Sequence

from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.rpc.client import region_specifier
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.master import table_message

LOAD_TIMEOUT_SECONDS = 300.0  # the server reads each file's index, and may have to flush the region first


def prepare(server: Connection, table: str, region: bytes) -> str:
    """Ask the server to make a folder for the files. Returns its URL on the server's file system. Raises an RpcError."""
    request = pb.PrepareBulkLoadRequest(table_name=table_message(table), region=region_specifier(region))
    return server.call("PrepareBulkLoad", request, pb.PrepareBulkLoadResponse).bulk_token


def load(server: Connection, region: bytes, token: str, files: Sequence[tuple[bytes, str]], cluster_ids: Sequence[str]) -> bool:
    """Load files, each with its family, into the region. Returns whether they were loaded; if not, the server's log says why.

    The peer cluster's own replication does not pass the load on to clusters with the ids `cluster_ids`. Raises an RpcError.
    """
    request = pb.BulkLoadHFileRequest(
        region=region_specifier(region), assign_seq_num=True, bulk_token=token, cluster_ids=cluster_ids,
        family_path=[pb.BulkLoadHFileRequest.FamilyPath(family=family, path=path) for family, path in files],
    )  # fmt: skip
    return server.call("BulkLoadHFile", request, pb.BulkLoadHFileResponse, timeout=LOAD_TIMEOUT_SECONDS).loaded


def store_files(admin: Connection, region: bytes, families: Sequence[bytes]) -> list[str]:
    """Ask the region's server for the paths of the region's files, <region>/<family>/<name>. Raises an RpcError.

    A load renames a file to <unique>_SeqId_<number>_, without that part if it has no number (HRegionFileSystem).
    """
    request = pb.GetStoreFileRequest(region=region_specifier(region), family=families)
    return list(admin.call("GetStoreFile", request, pb.GetStoreFileResponse).store_file)


def cleanup(server: Connection, region: bytes, token: str) -> None:
    """Ask the server to delete the folder, which need not exist. Raises an RpcError."""
    request = pb.CleanupBulkLoadRequest(bulk_token=token, region=region_specifier(region))
    server.call("CleanupBulkLoad", request, pb.CleanupBulkLoadResponse)
