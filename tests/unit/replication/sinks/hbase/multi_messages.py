"""The messages of ClientService.Multi as HBase's Client.proto (branch-2.6) has them."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_UINT32, _INT32, _BYTES, _BOOL, _STRING = (
    _FIELD.TYPE_UINT32, _FIELD.TYPE_INT32, _FIELD.TYPE_BYTES, _FIELD.TYPE_BOOL, _FIELD.TYPE_STRING,
)  # fmt: skip
# message: field: (number, type or message, repeated)
_MESSAGES: dict[str, dict[str, tuple[int, int | str, bool]]] = {
    "NameBytesPair": {"name": (1, _STRING, False), "value": (2, _BYTES, False)},
    "RegionSpecifier": {"type": (1, _INT32, False), "value": (2, _BYTES, False)},
    "MutationProto": {
        "row": (1, _BYTES, False), "mutate_type": (2, _INT32, False), "attribute": (5, "NameBytesPair", True),
        "associated_cell_count": (8, _INT32, False),
    },
    "Action": {"index": (1, _UINT32, False), "mutation": (2, "MutationProto", False)},
    "RegionAction": {"region": (1, "RegionSpecifier", False), "atomic": (2, _BOOL, False), "action": (3, "Action", True)},
    "MultiRequest": {"regionAction": (1, "RegionAction", True)},
    "Result": {"associated_cell_count": (2, _INT32, False)},
    "ResultOrException": {
        "index": (1, _UINT32, False), "result": (2, "Result", False), "exception": (3, "NameBytesPair", False),
    },
    "RegionActionResult": {
        "resultOrException": (1, "ResultOrException", True), "exception": (2, "NameBytesPair", False),
        "processed": (3, _BOOL, False),
    },
    "MultiResponse": {"regionActionResult": (1, "RegionActionResult", True), "processed": (2, _BOOL, False)},
}  # fmt: skip


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="multi.proto", package="multi", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, repeated) in fields.items():
            label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, label=label)
            if isinstance(kind, str):
                added.type, added.type_name = _FIELD.TYPE_MESSAGE, f".multi.{kind}"
            else:
                added.type = kind  # type: ignore[assignment]
    return file


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_file())


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"multi.{name}"))


MultiRequest = _message("MultiRequest")
MultiResponse = _message("MultiResponse")
