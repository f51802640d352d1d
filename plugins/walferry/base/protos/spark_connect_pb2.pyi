from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class UserContext(_message.Message):
    __slots__ = ("user_id",)
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    user_id: str
    def __init__(self, user_id: _Optional[str] = ...) -> None: ...

class Plan(_message.Message):
    __slots__ = ("root",)
    ROOT_FIELD_NUMBER: _ClassVar[int]
    root: Relation
    def __init__(self, root: _Optional[_Union[Relation, _Mapping]] = ...) -> None: ...

class ReattachOptions(_message.Message):
    __slots__ = ("reattachable",)
    REATTACHABLE_FIELD_NUMBER: _ClassVar[int]
    reattachable: bool
    def __init__(self, reattachable: _Optional[bool] = ...) -> None: ...

class ExecutePlanRequest(_message.Message):
    __slots__ = ("session_id", "user_context", "plan", "client_type", "request_options", "operation_id", "tags")
    class RequestOption(_message.Message):
        __slots__ = ("reattach_options",)
        REATTACH_OPTIONS_FIELD_NUMBER: _ClassVar[int]
        reattach_options: ReattachOptions
        def __init__(self, reattach_options: _Optional[_Union[ReattachOptions, _Mapping]] = ...) -> None: ...
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    USER_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    CLIENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    user_context: UserContext
    plan: Plan
    client_type: str
    request_options: _containers.RepeatedCompositeFieldContainer[ExecutePlanRequest.RequestOption]
    operation_id: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, session_id: _Optional[str] = ..., user_context: _Optional[_Union[UserContext, _Mapping]] = ..., plan: _Optional[_Union[Plan, _Mapping]] = ..., client_type: _Optional[str] = ..., request_options: _Optional[_Iterable[_Union[ExecutePlanRequest.RequestOption, _Mapping]]] = ..., operation_id: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ...) -> None: ...

class ExecutePlanResponse(_message.Message):
    __slots__ = ("response_id", "arrow_batch", "result_complete", "execution_progress")
    class ArrowBatch(_message.Message):
        __slots__ = ("row_count", "data")
        ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
        DATA_FIELD_NUMBER: _ClassVar[int]
        row_count: int
        data: bytes
        def __init__(self, row_count: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...
    class ResultComplete(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class ExecutionProgress(_message.Message):
        __slots__ = ("stages",)
        class StageInfo(_message.Message):
            __slots__ = ("stage_id", "num_tasks", "num_completed_tasks")
            STAGE_ID_FIELD_NUMBER: _ClassVar[int]
            NUM_TASKS_FIELD_NUMBER: _ClassVar[int]
            NUM_COMPLETED_TASKS_FIELD_NUMBER: _ClassVar[int]
            stage_id: int
            num_tasks: int
            num_completed_tasks: int
            def __init__(self, stage_id: _Optional[int] = ..., num_tasks: _Optional[int] = ..., num_completed_tasks: _Optional[int] = ...) -> None: ...
        STAGES_FIELD_NUMBER: _ClassVar[int]
        stages: _containers.RepeatedCompositeFieldContainer[ExecutePlanResponse.ExecutionProgress.StageInfo]
        def __init__(self, stages: _Optional[_Iterable[_Union[ExecutePlanResponse.ExecutionProgress.StageInfo, _Mapping]]] = ...) -> None: ...
    RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    ARROW_BATCH_FIELD_NUMBER: _ClassVar[int]
    RESULT_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    response_id: str
    arrow_batch: ExecutePlanResponse.ArrowBatch
    result_complete: ExecutePlanResponse.ResultComplete
    execution_progress: ExecutePlanResponse.ExecutionProgress
    def __init__(self, response_id: _Optional[str] = ..., arrow_batch: _Optional[_Union[ExecutePlanResponse.ArrowBatch, _Mapping]] = ..., result_complete: _Optional[_Union[ExecutePlanResponse.ResultComplete, _Mapping]] = ..., execution_progress: _Optional[_Union[ExecutePlanResponse.ExecutionProgress, _Mapping]] = ...) -> None: ...

class ReattachExecuteRequest(_message.Message):
    __slots__ = ("session_id", "user_context", "operation_id", "last_response_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    USER_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    user_context: UserContext
    operation_id: str
    last_response_id: str
    def __init__(self, session_id: _Optional[str] = ..., user_context: _Optional[_Union[UserContext, _Mapping]] = ..., operation_id: _Optional[str] = ..., last_response_id: _Optional[str] = ...) -> None: ...

class ReleaseExecuteRequest(_message.Message):
    __slots__ = ("session_id", "user_context", "operation_id", "release_all")
    class ReleaseAll(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    USER_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    RELEASE_ALL_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    user_context: UserContext
    operation_id: str
    release_all: ReleaseExecuteRequest.ReleaseAll
    def __init__(self, session_id: _Optional[str] = ..., user_context: _Optional[_Union[UserContext, _Mapping]] = ..., operation_id: _Optional[str] = ..., release_all: _Optional[_Union[ReleaseExecuteRequest.ReleaseAll, _Mapping]] = ...) -> None: ...

class ReleaseExecuteResponse(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class InterruptRequest(_message.Message):
    __slots__ = ("session_id", "user_context", "interrupt_type", "operation_tag", "operation_id")
    class InterruptType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        INTERRUPT_TYPE_UNSPECIFIED: _ClassVar[InterruptRequest.InterruptType]
        INTERRUPT_TYPE_TAG: _ClassVar[InterruptRequest.InterruptType]
        INTERRUPT_TYPE_OPERATION_ID: _ClassVar[InterruptRequest.InterruptType]
    INTERRUPT_TYPE_UNSPECIFIED: InterruptRequest.InterruptType
    INTERRUPT_TYPE_TAG: InterruptRequest.InterruptType
    INTERRUPT_TYPE_OPERATION_ID: InterruptRequest.InterruptType
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    USER_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    INTERRUPT_TYPE_FIELD_NUMBER: _ClassVar[int]
    OPERATION_TAG_FIELD_NUMBER: _ClassVar[int]
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    user_context: UserContext
    interrupt_type: InterruptRequest.InterruptType
    operation_tag: str
    operation_id: str
    def __init__(self, session_id: _Optional[str] = ..., user_context: _Optional[_Union[UserContext, _Mapping]] = ..., interrupt_type: _Optional[_Union[InterruptRequest.InterruptType, str]] = ..., operation_tag: _Optional[str] = ..., operation_id: _Optional[str] = ...) -> None: ...

class InterruptResponse(_message.Message):
    __slots__ = ("interrupted_ids",)
    INTERRUPTED_IDS_FIELD_NUMBER: _ClassVar[int]
    interrupted_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, interrupted_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class AddArtifactsRequest(_message.Message):
    __slots__ = ("session_id", "user_context", "batch")
    class ArtifactChunk(_message.Message):
        __slots__ = ("data", "crc")
        DATA_FIELD_NUMBER: _ClassVar[int]
        CRC_FIELD_NUMBER: _ClassVar[int]
        data: bytes
        crc: int
        def __init__(self, data: _Optional[bytes] = ..., crc: _Optional[int] = ...) -> None: ...
    class SingleChunkArtifact(_message.Message):
        __slots__ = ("name", "data")
        NAME_FIELD_NUMBER: _ClassVar[int]
        DATA_FIELD_NUMBER: _ClassVar[int]
        name: str
        data: AddArtifactsRequest.ArtifactChunk
        def __init__(self, name: _Optional[str] = ..., data: _Optional[_Union[AddArtifactsRequest.ArtifactChunk, _Mapping]] = ...) -> None: ...
    class Batch(_message.Message):
        __slots__ = ("artifacts",)
        ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
        artifacts: _containers.RepeatedCompositeFieldContainer[AddArtifactsRequest.SingleChunkArtifact]
        def __init__(self, artifacts: _Optional[_Iterable[_Union[AddArtifactsRequest.SingleChunkArtifact, _Mapping]]] = ...) -> None: ...
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    USER_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    user_context: UserContext
    batch: AddArtifactsRequest.Batch
    def __init__(self, session_id: _Optional[str] = ..., user_context: _Optional[_Union[UserContext, _Mapping]] = ..., batch: _Optional[_Union[AddArtifactsRequest.Batch, _Mapping]] = ...) -> None: ...

class AddArtifactsResponse(_message.Message):
    __slots__ = ("artifacts",)
    class ArtifactSummary(_message.Message):
        __slots__ = ("name", "is_crc_successful")
        NAME_FIELD_NUMBER: _ClassVar[int]
        IS_CRC_SUCCESSFUL_FIELD_NUMBER: _ClassVar[int]
        name: str
        is_crc_successful: bool
        def __init__(self, name: _Optional[str] = ..., is_crc_successful: _Optional[bool] = ...) -> None: ...
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    artifacts: _containers.RepeatedCompositeFieldContainer[AddArtifactsResponse.ArtifactSummary]
    def __init__(self, artifacts: _Optional[_Iterable[_Union[AddArtifactsResponse.ArtifactSummary, _Mapping]]] = ...) -> None: ...

class ArtifactStatusesRequest(_message.Message):
    __slots__ = ("session_id", "user_context", "names")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    USER_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    user_context: UserContext
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, session_id: _Optional[str] = ..., user_context: _Optional[_Union[UserContext, _Mapping]] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class ArtifactStatusesResponse(_message.Message):
    __slots__ = ("statuses",)
    class ArtifactStatus(_message.Message):
        __slots__ = ("exists",)
        EXISTS_FIELD_NUMBER: _ClassVar[int]
        exists: bool
        def __init__(self, exists: _Optional[bool] = ...) -> None: ...
    class StatusesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ArtifactStatusesResponse.ArtifactStatus
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ArtifactStatusesResponse.ArtifactStatus, _Mapping]] = ...) -> None: ...
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    statuses: _containers.MessageMap[str, ArtifactStatusesResponse.ArtifactStatus]
    def __init__(self, statuses: _Optional[_Mapping[str, ArtifactStatusesResponse.ArtifactStatus]] = ...) -> None: ...

class Relation(_message.Message):
    __slots__ = ("common", "range", "map_partitions")
    COMMON_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    MAP_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    common: RelationCommon
    range: Range
    map_partitions: MapPartitions
    def __init__(self, common: _Optional[_Union[RelationCommon, _Mapping]] = ..., range: _Optional[_Union[Range, _Mapping]] = ..., map_partitions: _Optional[_Union[MapPartitions, _Mapping]] = ...) -> None: ...

class RelationCommon(_message.Message):
    __slots__ = ("plan_id",)
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    plan_id: int
    def __init__(self, plan_id: _Optional[int] = ...) -> None: ...

class Range(_message.Message):
    __slots__ = ("start", "end", "step", "num_partitions")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    NUM_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    step: int
    num_partitions: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ..., step: _Optional[int] = ..., num_partitions: _Optional[int] = ...) -> None: ...

class MapPartitions(_message.Message):
    __slots__ = ("input", "func", "is_barrier")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    FUNC_FIELD_NUMBER: _ClassVar[int]
    IS_BARRIER_FIELD_NUMBER: _ClassVar[int]
    input: Relation
    func: CommonInlineUserDefinedFunction
    is_barrier: bool
    def __init__(self, input: _Optional[_Union[Relation, _Mapping]] = ..., func: _Optional[_Union[CommonInlineUserDefinedFunction, _Mapping]] = ..., is_barrier: _Optional[bool] = ...) -> None: ...

class CommonInlineUserDefinedFunction(_message.Message):
    __slots__ = ("function_name", "deterministic", "arguments", "python_udf")
    FUNCTION_NAME_FIELD_NUMBER: _ClassVar[int]
    DETERMINISTIC_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    PYTHON_UDF_FIELD_NUMBER: _ClassVar[int]
    function_name: str
    deterministic: bool
    arguments: _containers.RepeatedCompositeFieldContainer[Expression]
    python_udf: PythonUDF
    def __init__(self, function_name: _Optional[str] = ..., deterministic: _Optional[bool] = ..., arguments: _Optional[_Iterable[_Union[Expression, _Mapping]]] = ..., python_udf: _Optional[_Union[PythonUDF, _Mapping]] = ...) -> None: ...

class PythonUDF(_message.Message):
    __slots__ = ("output_type", "eval_type", "command", "python_ver")
    OUTPUT_TYPE_FIELD_NUMBER: _ClassVar[int]
    EVAL_TYPE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    PYTHON_VER_FIELD_NUMBER: _ClassVar[int]
    output_type: DataType
    eval_type: int
    command: bytes
    python_ver: str
    def __init__(self, output_type: _Optional[_Union[DataType, _Mapping]] = ..., eval_type: _Optional[int] = ..., command: _Optional[bytes] = ..., python_ver: _Optional[str] = ...) -> None: ...

class Expression(_message.Message):
    __slots__ = ("unresolved_attribute",)
    class UnresolvedAttribute(_message.Message):
        __slots__ = ("unparsed_identifier",)
        UNPARSED_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
        unparsed_identifier: str
        def __init__(self, unparsed_identifier: _Optional[str] = ...) -> None: ...
    UNRESOLVED_ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    unresolved_attribute: Expression.UnresolvedAttribute
    def __init__(self, unresolved_attribute: _Optional[_Union[Expression.UnresolvedAttribute, _Mapping]] = ...) -> None: ...

class DataType(_message.Message):
    __slots__ = ("string", "struct")
    class String(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class StructField(_message.Message):
        __slots__ = ("name", "data_type", "nullable")
        NAME_FIELD_NUMBER: _ClassVar[int]
        DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
        NULLABLE_FIELD_NUMBER: _ClassVar[int]
        name: str
        data_type: DataType
        nullable: bool
        def __init__(self, name: _Optional[str] = ..., data_type: _Optional[_Union[DataType, _Mapping]] = ..., nullable: _Optional[bool] = ...) -> None: ...
    class Struct(_message.Message):
        __slots__ = ("fields",)
        FIELDS_FIELD_NUMBER: _ClassVar[int]
        fields: _containers.RepeatedCompositeFieldContainer[DataType.StructField]
        def __init__(self, fields: _Optional[_Iterable[_Union[DataType.StructField, _Mapping]]] = ...) -> None: ...
    STRING_FIELD_NUMBER: _ClassVar[int]
    STRUCT_FIELD_NUMBER: _ClassVar[int]
    string: DataType.String
    struct: DataType.Struct
    def __init__(self, string: _Optional[_Union[DataType.String, _Mapping]] = ..., struct: _Optional[_Union[DataType.Struct, _Mapping]] = ...) -> None: ...
