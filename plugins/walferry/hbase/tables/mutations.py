"""Changes rows of one region at once, if some of their cells have the values that the caller has seen.

The table needs the coprocessor MultiRowMutationEndpoint. An empty value stands for a cell that is not there.

Source: HBase's MultiRowMutationEndpoint.mutateRows, CoprocessorRpcUtils, ClientService.ExecService (branch-2.6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from google.protobuf.message import DecodeError

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import parse_message
from walferry.hbase.rpc.client import region_specifier
from walferry.hbase.rpc.errors import ProtocolError, RpcError
from walferry.hbase.tables.errors import RegionUnavailable, ScanGivenUp
from walferry.hbase.tables.scan import Patience, another_try_helps
from walferry.hbase.tables.tables import Tables

_SERVICE, _METHOD = "MultiRowMutationService", "MutateRows"
_BINARY_COMPARATOR = "org.apache.hadoop.hbase.filter.BinaryComparator"


def put_of(row: bytes, family: bytes, cells: Mapping[bytes, bytes]) -> pb.MutationProto:
    """Return the change that sets cells, by qualifier."""
    column = pb.MutationProto.ColumnValue(family=family)
    for qualifier, value in cells.items():
        column.qualifier_value.add(qualifier=qualifier, value=value)
    return pb.MutationProto(row=row, mutate_type=pb.MutationProto.PUT, column_value=[column])


def deletion_of(row: bytes, family: bytes, qualifiers: list[bytes] | None = None) -> pb.MutationProto:
    """Return the change that deletes cells of a family; all without `qualifiers`."""
    column = pb.MutationProto.ColumnValue(family=family)
    for qualifier in [b""] if qualifiers is None else qualifiers:
        kind = pb.MutationProto.DELETE_FAMILY if qualifiers is None else pb.MutationProto.DELETE_MULTIPLE_VERSIONS
        column.qualifier_value.add(qualifier=qualifier, delete_type=kind)
    return pb.MutationProto(row=row, mutate_type=pb.MutationProto.DELETE, column_value=[column])


def cell_is(row: bytes, family: bytes, qualifier: bytes, value: bytes | None) -> pb.Condition:
    """Return the condition that a cell has this value; None: that it is not there."""
    compared = pb.BinaryComparator(comparable=pb.ByteArrayComparable(value=value or b""))
    return pb.Condition(
        row=row, family=family, qualifier=qualifier, compare_type=pb.EQUAL,
        comparator=pb.Comparator(name=_BINARY_COMPARATOR, serialized_comparator=compared.SerializeToString()),
    )  # fmt: skip


def mutate(tables: Tables, table: str, mutations: Sequence[pb.MutationProto], conditions: Sequence[pb.Condition] = ()) -> bool:
    """Change rows, wherever their region is. Returns False, and changes nothing, if a condition does not hold.

    A call without an answer is repeated, so a change that was carried out may then find that its condition no longer holds.
    Raises MissingTable, ScanGivenUp when the tables' patience is over, or an RpcError that another try cannot solve.
    """
    row = mutations[0].row
    request = pb.MutateRowsRequest(mutation_request=mutations, condition=conditions).SerializeToString()
    call = pb.CoprocessorServiceCall(row=row, service_name=_SERVICE, method_name=_METHOD, request=request)
    place, patience, known = tables.place(table), Patience(tables.patience_seconds), True
    while True:
        try:
            region = place.locate(row, known=known)
            execute = pb.CoprocessorServiceRequest(region=region_specifier(region.name), call=call)
            answer = place.connection(region).call("ExecService", execute, pb.CoprocessorServiceResponse)
            return parse_message(pb.MutateRowsResponse, answer.value.value).processed
        except DecodeError as error:
            raise ProtocolError(f"a server of table {table}", f"its answer is not a {_METHOD}Response ({error})") from error
        except (RpcError, RegionUnavailable) as error:
            if not another_try_helps(error):
                raise
            if not patience.wait():
                raise ScanGivenUp(table, row, patience.seconds, str(error)) from error
            known = False
