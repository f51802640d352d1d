"""Calls to the master that read tables' schemas and make namespaces and tables (MasterService in Master.proto)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.names import table_text
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import RemoteError
from walferry.hbase.rpc.master import wait_procedure

CREATE_TIMEOUT_SECONDS = 600.0  # a table may have thousands of regions, which the master assigns before it answers


def table_message(table: str) -> pb.TableName:
    """The message of "table" or "namespace:table"."""
    namespace, _, name = table.rpartition(":")
    return pb.TableName(namespace=(namespace or "default").encode(), qualifier=name.encode())


def table_schemas(master: Connection, tables: Collection[str] | None = None) -> dict[str, pb.TableSchema]:
    """Get the schemas of the tables that exist, or of all user tables. Fields that we do not know are kept in them.

    With AccessController the user needs ADMIN or CREATE on the tables. Raises an RpcError.
    """
    if tables is not None and not tables:
        return {}  # a request without names asks for all tables
    request = pb.GetTableDescriptorsRequest(include_sys_tables=tables is not None)
    for table in tables or ():
        request.table_names.append(table_message(table))
    response = master.call("GetTableDescriptors", request, pb.GetTableDescriptorsResponse)
    return {table_text(schema.table_name): schema for schema in response.table_schema}


def create_table(master: Connection, schema: pb.TableSchema, split_keys: Sequence[bytes]) -> bool:
    """Make a table and wait until it is enabled. Returns False if it exists already. Raises an RpcError."""
    request = pb.CreateTableRequest(table_schema=schema, split_keys=split_keys)
    return _made(master, "CreateTable", request, pb.CreateTableResponse, table_text(schema.table_name), "TableExistsException")


def create_namespace(master: Connection, namespace: str) -> bool:
    """Make a namespace. Returns False if it exists already. Raises an RpcError."""
    request = pb.CreateNamespaceRequest(namespaceDescriptor=pb.NamespaceDescriptor(name=namespace.encode()))
    return _made(master, "CreateNamespace", request, pb.CreateNamespaceResponse, namespace, "NamespaceExistException")


def _made(
    master: Connection,
    method: str,
    request: pb.CreateTableRequest | pb.CreateNamespaceRequest,
    response_type: type[pb.CreateTableResponse] | type[pb.CreateNamespaceResponse],
    what: str,
    exists: str,
) -> bool:
    try:
        response = master.call(method, request, response_type)
        if response.HasField("proc_id"):  # HBase 1 does the work in the call itself
            wait_procedure(master, f"{method} {what}", response.proc_id, timeout=CREATE_TIMEOUT_SECONDS)
    except RemoteError as error:
        if error.class_name.rpartition(".")[2] != exists:
            raise
        return False
    return True
