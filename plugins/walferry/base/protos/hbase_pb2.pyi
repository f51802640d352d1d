from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ScopeType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPLICATION_SCOPE_LOCAL: _ClassVar[ScopeType]
    REPLICATION_SCOPE_GLOBAL: _ClassVar[ScopeType]
    REPLICATION_SCOPE_SERIAL: _ClassVar[ScopeType]

class CompareType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EQUAL: _ClassVar[CompareType]
REPLICATION_SCOPE_LOCAL: ScopeType
REPLICATION_SCOPE_GLOBAL: ScopeType
REPLICATION_SCOPE_SERIAL: ScopeType
EQUAL: CompareType

class TableName(_message.Message):
    __slots__ = ("namespace", "qualifier")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    namespace: bytes
    qualifier: bytes
    def __init__(self, namespace: _Optional[bytes] = ..., qualifier: _Optional[bytes] = ...) -> None: ...

class ServerName(_message.Message):
    __slots__ = ("host_name", "port", "start_code")
    HOST_NAME_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    START_CODE_FIELD_NUMBER: _ClassVar[int]
    host_name: str
    port: int
    start_code: int
    def __init__(self, host_name: _Optional[str] = ..., port: _Optional[int] = ..., start_code: _Optional[int] = ...) -> None: ...

class NameStringPair(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class NameBytesPair(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class BytesBytesPair(_message.Message):
    __slots__ = ("first", "second")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    first: bytes
    second: bytes
    def __init__(self, first: _Optional[bytes] = ..., second: _Optional[bytes] = ...) -> None: ...

class VersionInfo(_message.Message):
    __slots__ = ("version", "url", "revision", "user", "date", "src_checksum", "version_major", "version_minor")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    DATE_FIELD_NUMBER: _ClassVar[int]
    SRC_CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    VERSION_MAJOR_FIELD_NUMBER: _ClassVar[int]
    VERSION_MINOR_FIELD_NUMBER: _ClassVar[int]
    version: str
    url: str
    revision: str
    user: str
    date: str
    src_checksum: str
    version_major: int
    version_minor: int
    def __init__(self, version: _Optional[str] = ..., url: _Optional[str] = ..., revision: _Optional[str] = ..., user: _Optional[str] = ..., date: _Optional[str] = ..., src_checksum: _Optional[str] = ..., version_major: _Optional[int] = ..., version_minor: _Optional[int] = ...) -> None: ...

class UUID(_message.Message):
    __slots__ = ("least_sig_bits", "most_sig_bits")
    LEAST_SIG_BITS_FIELD_NUMBER: _ClassVar[int]
    MOST_SIG_BITS_FIELD_NUMBER: _ClassVar[int]
    least_sig_bits: int
    most_sig_bits: int
    def __init__(self, least_sig_bits: _Optional[int] = ..., most_sig_bits: _Optional[int] = ...) -> None: ...

class ClusterId(_message.Message):
    __slots__ = ("cluster_id",)
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    def __init__(self, cluster_id: _Optional[str] = ...) -> None: ...

class RegionServerInfo(_message.Message):
    __slots__ = ("infoPort", "version_info")
    INFOPORT_FIELD_NUMBER: _ClassVar[int]
    VERSION_INFO_FIELD_NUMBER: _ClassVar[int]
    infoPort: int
    version_info: VersionInfo
    def __init__(self, infoPort: _Optional[int] = ..., version_info: _Optional[_Union[VersionInfo, _Mapping]] = ...) -> None: ...

class Master(_message.Message):
    __slots__ = ("master", "rpc_version", "info_port")
    MASTER_FIELD_NUMBER: _ClassVar[int]
    RPC_VERSION_FIELD_NUMBER: _ClassVar[int]
    INFO_PORT_FIELD_NUMBER: _ClassVar[int]
    master: ServerName
    rpc_version: int
    info_port: int
    def __init__(self, master: _Optional[_Union[ServerName, _Mapping]] = ..., rpc_version: _Optional[int] = ..., info_port: _Optional[int] = ...) -> None: ...

class ReplicationLock(_message.Message):
    __slots__ = ("lock_owner",)
    LOCK_OWNER_FIELD_NUMBER: _ClassVar[int]
    lock_owner: str
    def __init__(self, lock_owner: _Optional[str] = ...) -> None: ...

class RegionTransition(_message.Message):
    __slots__ = ("event_type_code", "region_name", "create_time", "server_name", "payload")
    EVENT_TYPE_CODE_FIELD_NUMBER: _ClassVar[int]
    REGION_NAME_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    SERVER_NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    event_type_code: int
    region_name: bytes
    create_time: int
    server_name: ServerName
    payload: bytes
    def __init__(self, event_type_code: _Optional[int] = ..., region_name: _Optional[bytes] = ..., create_time: _Optional[int] = ..., server_name: _Optional[_Union[ServerName, _Mapping]] = ..., payload: _Optional[bytes] = ...) -> None: ...

class WALHeader(_message.Message):
    __slots__ = ("has_compression", "encryption_key", "has_tag_compression", "writer_cls_name", "cell_codec_cls_name", "has_value_compression", "value_compression_algorithm")
    HAS_COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    ENCRYPTION_KEY_FIELD_NUMBER: _ClassVar[int]
    HAS_TAG_COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    WRITER_CLS_NAME_FIELD_NUMBER: _ClassVar[int]
    CELL_CODEC_CLS_NAME_FIELD_NUMBER: _ClassVar[int]
    HAS_VALUE_COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    VALUE_COMPRESSION_ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    has_compression: bool
    encryption_key: bytes
    has_tag_compression: bool
    writer_cls_name: str
    cell_codec_cls_name: str
    has_value_compression: bool
    value_compression_algorithm: int
    def __init__(self, has_compression: _Optional[bool] = ..., encryption_key: _Optional[bytes] = ..., has_tag_compression: _Optional[bool] = ..., writer_cls_name: _Optional[str] = ..., cell_codec_cls_name: _Optional[str] = ..., has_value_compression: _Optional[bool] = ..., value_compression_algorithm: _Optional[int] = ...) -> None: ...

class FamilyScope(_message.Message):
    __slots__ = ("family", "scope_type")
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    SCOPE_TYPE_FIELD_NUMBER: _ClassVar[int]
    family: bytes
    scope_type: ScopeType
    def __init__(self, family: _Optional[bytes] = ..., scope_type: _Optional[_Union[ScopeType, str]] = ...) -> None: ...

class Attribute(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: bytes
    def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class WALKey(_message.Message):
    __slots__ = ("encoded_region_name", "table_name", "log_sequence_number", "write_time", "cluster_id", "scopes", "following_kv_count", "cluster_ids", "nonceGroup", "nonce", "orig_sequence_number", "extended_attributes")
    ENCODED_REGION_NAME_FIELD_NUMBER: _ClassVar[int]
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    LOG_SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    WRITE_TIME_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    FOLLOWING_KV_COUNT_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_IDS_FIELD_NUMBER: _ClassVar[int]
    NONCEGROUP_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    ORIG_SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    EXTENDED_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    encoded_region_name: bytes
    table_name: bytes
    log_sequence_number: int
    write_time: int
    cluster_id: UUID
    scopes: _containers.RepeatedCompositeFieldContainer[FamilyScope]
    following_kv_count: int
    cluster_ids: _containers.RepeatedCompositeFieldContainer[UUID]
    nonceGroup: int
    nonce: int
    orig_sequence_number: int
    extended_attributes: _containers.RepeatedCompositeFieldContainer[Attribute]
    def __init__(self, encoded_region_name: _Optional[bytes] = ..., table_name: _Optional[bytes] = ..., log_sequence_number: _Optional[int] = ..., write_time: _Optional[int] = ..., cluster_id: _Optional[_Union[UUID, _Mapping]] = ..., scopes: _Optional[_Iterable[_Union[FamilyScope, _Mapping]]] = ..., following_kv_count: _Optional[int] = ..., cluster_ids: _Optional[_Iterable[_Union[UUID, _Mapping]]] = ..., nonceGroup: _Optional[int] = ..., nonce: _Optional[int] = ..., orig_sequence_number: _Optional[int] = ..., extended_attributes: _Optional[_Iterable[_Union[Attribute, _Mapping]]] = ...) -> None: ...

class StoreDescriptor(_message.Message):
    __slots__ = ("family_name", "store_home_dir", "store_file", "store_file_size_bytes")
    FAMILY_NAME_FIELD_NUMBER: _ClassVar[int]
    STORE_HOME_DIR_FIELD_NUMBER: _ClassVar[int]
    STORE_FILE_FIELD_NUMBER: _ClassVar[int]
    STORE_FILE_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    family_name: bytes
    store_home_dir: str
    store_file: _containers.RepeatedScalarFieldContainer[str]
    store_file_size_bytes: int
    def __init__(self, family_name: _Optional[bytes] = ..., store_home_dir: _Optional[str] = ..., store_file: _Optional[_Iterable[str]] = ..., store_file_size_bytes: _Optional[int] = ...) -> None: ...

class BulkLoadDescriptor(_message.Message):
    __slots__ = ("table_name", "encoded_region_name", "stores", "bulkload_seq_num", "cluster_ids", "replicate")
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    ENCODED_REGION_NAME_FIELD_NUMBER: _ClassVar[int]
    STORES_FIELD_NUMBER: _ClassVar[int]
    BULKLOAD_SEQ_NUM_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_IDS_FIELD_NUMBER: _ClassVar[int]
    REPLICATE_FIELD_NUMBER: _ClassVar[int]
    table_name: TableName
    encoded_region_name: bytes
    stores: _containers.RepeatedCompositeFieldContainer[StoreDescriptor]
    bulkload_seq_num: int
    cluster_ids: _containers.RepeatedScalarFieldContainer[str]
    replicate: bool
    def __init__(self, table_name: _Optional[_Union[TableName, _Mapping]] = ..., encoded_region_name: _Optional[bytes] = ..., stores: _Optional[_Iterable[_Union[StoreDescriptor, _Mapping]]] = ..., bulkload_seq_num: _Optional[int] = ..., cluster_ids: _Optional[_Iterable[str]] = ..., replicate: _Optional[bool] = ...) -> None: ...

class VisibilityLabel(_message.Message):
    __slots__ = ("label", "ordinal")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    label: bytes
    ordinal: int
    def __init__(self, label: _Optional[bytes] = ..., ordinal: _Optional[int] = ...) -> None: ...

class VisibilityLabelsRequest(_message.Message):
    __slots__ = ("visLabel",)
    VISLABEL_FIELD_NUMBER: _ClassVar[int]
    visLabel: _containers.RepeatedCompositeFieldContainer[VisibilityLabel]
    def __init__(self, visLabel: _Optional[_Iterable[_Union[VisibilityLabel, _Mapping]]] = ...) -> None: ...

class WrappedKey(_message.Message):
    __slots__ = ("algorithm", "length", "data", "iv", "hash", "hash_algorithm")
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    IV_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    HASH_ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    algorithm: str
    length: int
    data: bytes
    iv: bytes
    hash: bytes
    hash_algorithm: str
    def __init__(self, algorithm: _Optional[str] = ..., length: _Optional[int] = ..., data: _Optional[bytes] = ..., iv: _Optional[bytes] = ..., hash: _Optional[bytes] = ..., hash_algorithm: _Optional[str] = ...) -> None: ...

class TableCF(_message.Message):
    __slots__ = ("table_name", "families")
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    FAMILIES_FIELD_NUMBER: _ClassVar[int]
    table_name: TableName
    families: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, table_name: _Optional[_Union[TableName, _Mapping]] = ..., families: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ReplicationPeer(_message.Message):
    __slots__ = ("clusterkey", "replicationEndpointImpl", "data", "configuration", "table_cfs", "namespaces", "bandwidth", "replicate_all", "exclude_table_cfs", "exclude_namespaces", "serial", "remoteWALDir")
    CLUSTERKEY_FIELD_NUMBER: _ClassVar[int]
    REPLICATIONENDPOINTIMPL_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    TABLE_CFS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_FIELD_NUMBER: _ClassVar[int]
    REPLICATE_ALL_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_TABLE_CFS_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    REMOTEWALDIR_FIELD_NUMBER: _ClassVar[int]
    clusterkey: str
    replicationEndpointImpl: str
    data: _containers.RepeatedCompositeFieldContainer[BytesBytesPair]
    configuration: _containers.RepeatedCompositeFieldContainer[NameStringPair]
    table_cfs: _containers.RepeatedCompositeFieldContainer[TableCF]
    namespaces: _containers.RepeatedScalarFieldContainer[bytes]
    bandwidth: int
    replicate_all: bool
    exclude_table_cfs: _containers.RepeatedCompositeFieldContainer[TableCF]
    exclude_namespaces: _containers.RepeatedScalarFieldContainer[bytes]
    serial: bool
    remoteWALDir: str
    def __init__(self, clusterkey: _Optional[str] = ..., replicationEndpointImpl: _Optional[str] = ..., data: _Optional[_Iterable[_Union[BytesBytesPair, _Mapping]]] = ..., configuration: _Optional[_Iterable[_Union[NameStringPair, _Mapping]]] = ..., table_cfs: _Optional[_Iterable[_Union[TableCF, _Mapping]]] = ..., namespaces: _Optional[_Iterable[bytes]] = ..., bandwidth: _Optional[int] = ..., replicate_all: _Optional[bool] = ..., exclude_table_cfs: _Optional[_Iterable[_Union[TableCF, _Mapping]]] = ..., exclude_namespaces: _Optional[_Iterable[bytes]] = ..., serial: _Optional[bool] = ..., remoteWALDir: _Optional[str] = ...) -> None: ...

class ReplicationState(_message.Message):
    __slots__ = ("state",)
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ENABLED: _ClassVar[ReplicationState.State]
        DISABLED: _ClassVar[ReplicationState.State]
    ENABLED: ReplicationState.State
    DISABLED: ReplicationState.State
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: ReplicationState.State
    def __init__(self, state: _Optional[_Union[ReplicationState.State, str]] = ...) -> None: ...

class SyncReplicationState(_message.Message):
    __slots__ = ("state",)
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[SyncReplicationState.State]
        ACTIVE: _ClassVar[SyncReplicationState.State]
        DOWNGRADE_ACTIVE: _ClassVar[SyncReplicationState.State]
        STANDBY: _ClassVar[SyncReplicationState.State]
    NONE: SyncReplicationState.State
    ACTIVE: SyncReplicationState.State
    DOWNGRADE_ACTIVE: SyncReplicationState.State
    STANDBY: SyncReplicationState.State
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: SyncReplicationState.State
    def __init__(self, state: _Optional[_Union[SyncReplicationState.State, str]] = ...) -> None: ...

class ReplicationPeerDescription(_message.Message):
    __slots__ = ("id", "state", "config", "syncReplicationState")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    SYNCREPLICATIONSTATE_FIELD_NUMBER: _ClassVar[int]
    id: str
    state: ReplicationState
    config: ReplicationPeer
    syncReplicationState: SyncReplicationState
    def __init__(self, id: _Optional[str] = ..., state: _Optional[_Union[ReplicationState, _Mapping]] = ..., config: _Optional[_Union[ReplicationPeer, _Mapping]] = ..., syncReplicationState: _Optional[_Union[SyncReplicationState, _Mapping]] = ...) -> None: ...

class ReplicationHLogPosition(_message.Message):
    __slots__ = ("position",)
    POSITION_FIELD_NUMBER: _ClassVar[int]
    position: int
    def __init__(self, position: _Optional[int] = ...) -> None: ...

class RotateFileData(_message.Message):
    __slots__ = ("timestamp", "data")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    timestamp: int
    data: bytes
    def __init__(self, timestamp: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class AddReplicationPeerRequest(_message.Message):
    __slots__ = ("peer_id", "peer_config", "peer_state")
    PEER_ID_FIELD_NUMBER: _ClassVar[int]
    PEER_CONFIG_FIELD_NUMBER: _ClassVar[int]
    PEER_STATE_FIELD_NUMBER: _ClassVar[int]
    peer_id: str
    peer_config: ReplicationPeer
    peer_state: ReplicationState
    def __init__(self, peer_id: _Optional[str] = ..., peer_config: _Optional[_Union[ReplicationPeer, _Mapping]] = ..., peer_state: _Optional[_Union[ReplicationState, _Mapping]] = ...) -> None: ...

class AddReplicationPeerResponse(_message.Message):
    __slots__ = ("proc_id",)
    PROC_ID_FIELD_NUMBER: _ClassVar[int]
    proc_id: int
    def __init__(self, proc_id: _Optional[int] = ...) -> None: ...

class RemoveReplicationPeerRequest(_message.Message):
    __slots__ = ("peer_id",)
    PEER_ID_FIELD_NUMBER: _ClassVar[int]
    peer_id: str
    def __init__(self, peer_id: _Optional[str] = ...) -> None: ...

class RemoveReplicationPeerResponse(_message.Message):
    __slots__ = ("proc_id",)
    PROC_ID_FIELD_NUMBER: _ClassVar[int]
    proc_id: int
    def __init__(self, proc_id: _Optional[int] = ...) -> None: ...

class EnableReplicationPeerRequest(_message.Message):
    __slots__ = ("peer_id",)
    PEER_ID_FIELD_NUMBER: _ClassVar[int]
    peer_id: str
    def __init__(self, peer_id: _Optional[str] = ...) -> None: ...

class EnableReplicationPeerResponse(_message.Message):
    __slots__ = ("proc_id",)
    PROC_ID_FIELD_NUMBER: _ClassVar[int]
    proc_id: int
    def __init__(self, proc_id: _Optional[int] = ...) -> None: ...

class DisableReplicationPeerRequest(_message.Message):
    __slots__ = ("peer_id",)
    PEER_ID_FIELD_NUMBER: _ClassVar[int]
    peer_id: str
    def __init__(self, peer_id: _Optional[str] = ...) -> None: ...

class DisableReplicationPeerResponse(_message.Message):
    __slots__ = ("proc_id",)
    PROC_ID_FIELD_NUMBER: _ClassVar[int]
    proc_id: int
    def __init__(self, proc_id: _Optional[int] = ...) -> None: ...

class GetReplicationPeerConfigRequest(_message.Message):
    __slots__ = ("peer_id",)
    PEER_ID_FIELD_NUMBER: _ClassVar[int]
    peer_id: str
    def __init__(self, peer_id: _Optional[str] = ...) -> None: ...

class GetReplicationPeerConfigResponse(_message.Message):
    __slots__ = ("peer_id", "peer_config")
    PEER_ID_FIELD_NUMBER: _ClassVar[int]
    PEER_CONFIG_FIELD_NUMBER: _ClassVar[int]
    peer_id: str
    peer_config: ReplicationPeer
    def __init__(self, peer_id: _Optional[str] = ..., peer_config: _Optional[_Union[ReplicationPeer, _Mapping]] = ...) -> None: ...

class UpdateReplicationPeerConfigRequest(_message.Message):
    __slots__ = ("peer_id", "peer_config")
    PEER_ID_FIELD_NUMBER: _ClassVar[int]
    PEER_CONFIG_FIELD_NUMBER: _ClassVar[int]
    peer_id: str
    peer_config: ReplicationPeer
    def __init__(self, peer_id: _Optional[str] = ..., peer_config: _Optional[_Union[ReplicationPeer, _Mapping]] = ...) -> None: ...

class UpdateReplicationPeerConfigResponse(_message.Message):
    __slots__ = ("proc_id",)
    PROC_ID_FIELD_NUMBER: _ClassVar[int]
    proc_id: int
    def __init__(self, proc_id: _Optional[int] = ...) -> None: ...

class ListReplicationPeersRequest(_message.Message):
    __slots__ = ("regex",)
    REGEX_FIELD_NUMBER: _ClassVar[int]
    regex: str
    def __init__(self, regex: _Optional[str] = ...) -> None: ...

class ListReplicationPeersResponse(_message.Message):
    __slots__ = ("peer_desc",)
    PEER_DESC_FIELD_NUMBER: _ClassVar[int]
    peer_desc: _containers.RepeatedCompositeFieldContainer[ReplicationPeerDescription]
    def __init__(self, peer_desc: _Optional[_Iterable[_Union[ReplicationPeerDescription, _Mapping]]] = ...) -> None: ...

class ColumnFamilySchema(_message.Message):
    __slots__ = ("name", "attributes", "configuration")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    attributes: _containers.RepeatedCompositeFieldContainer[BytesBytesPair]
    configuration: _containers.RepeatedCompositeFieldContainer[NameStringPair]
    def __init__(self, name: _Optional[bytes] = ..., attributes: _Optional[_Iterable[_Union[BytesBytesPair, _Mapping]]] = ..., configuration: _Optional[_Iterable[_Union[NameStringPair, _Mapping]]] = ...) -> None: ...

class TableSchema(_message.Message):
    __slots__ = ("table_name", "attributes", "column_families", "configuration")
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FAMILIES_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    table_name: TableName
    attributes: _containers.RepeatedCompositeFieldContainer[BytesBytesPair]
    column_families: _containers.RepeatedCompositeFieldContainer[ColumnFamilySchema]
    configuration: _containers.RepeatedCompositeFieldContainer[NameStringPair]
    def __init__(self, table_name: _Optional[_Union[TableName, _Mapping]] = ..., attributes: _Optional[_Iterable[_Union[BytesBytesPair, _Mapping]]] = ..., column_families: _Optional[_Iterable[_Union[ColumnFamilySchema, _Mapping]]] = ..., configuration: _Optional[_Iterable[_Union[NameStringPair, _Mapping]]] = ...) -> None: ...

class GetTableDescriptorsRequest(_message.Message):
    __slots__ = ("table_names", "include_sys_tables")
    TABLE_NAMES_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SYS_TABLES_FIELD_NUMBER: _ClassVar[int]
    table_names: _containers.RepeatedCompositeFieldContainer[TableName]
    include_sys_tables: bool
    def __init__(self, table_names: _Optional[_Iterable[_Union[TableName, _Mapping]]] = ..., include_sys_tables: _Optional[bool] = ...) -> None: ...

class GetTableDescriptorsResponse(_message.Message):
    __slots__ = ("table_schema",)
    TABLE_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    table_schema: _containers.RepeatedCompositeFieldContainer[TableSchema]
    def __init__(self, table_schema: _Optional[_Iterable[_Union[TableSchema, _Mapping]]] = ...) -> None: ...

class NamespaceDescriptor(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    def __init__(self, name: _Optional[bytes] = ...) -> None: ...

class GetNamespaceDescriptorRequest(_message.Message):
    __slots__ = ("namespaceName",)
    NAMESPACENAME_FIELD_NUMBER: _ClassVar[int]
    namespaceName: str
    def __init__(self, namespaceName: _Optional[str] = ...) -> None: ...

class GetNamespaceDescriptorResponse(_message.Message):
    __slots__ = ("namespaceDescriptor",)
    NAMESPACEDESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    namespaceDescriptor: NamespaceDescriptor
    def __init__(self, namespaceDescriptor: _Optional[_Union[NamespaceDescriptor, _Mapping]] = ...) -> None: ...

class GenericExceptionMessage(_message.Message):
    __slots__ = ("class_name", "message", "error_info")
    CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_INFO_FIELD_NUMBER: _ClassVar[int]
    class_name: str
    message: str
    error_info: bytes
    def __init__(self, class_name: _Optional[str] = ..., message: _Optional[str] = ..., error_info: _Optional[bytes] = ...) -> None: ...

class ForeignExceptionMessage(_message.Message):
    __slots__ = ("source", "generic_exception")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    GENERIC_EXCEPTION_FIELD_NUMBER: _ClassVar[int]
    source: str
    generic_exception: GenericExceptionMessage
    def __init__(self, source: _Optional[str] = ..., generic_exception: _Optional[_Union[GenericExceptionMessage, _Mapping]] = ...) -> None: ...

class GetProcedureResultRequest(_message.Message):
    __slots__ = ("proc_id",)
    PROC_ID_FIELD_NUMBER: _ClassVar[int]
    proc_id: int
    def __init__(self, proc_id: _Optional[int] = ...) -> None: ...

class GetProcedureResultResponse(_message.Message):
    __slots__ = ("state", "submitted_time", "last_update", "result", "exception")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NOT_FOUND: _ClassVar[GetProcedureResultResponse.State]
        RUNNING: _ClassVar[GetProcedureResultResponse.State]
        FINISHED: _ClassVar[GetProcedureResultResponse.State]
    NOT_FOUND: GetProcedureResultResponse.State
    RUNNING: GetProcedureResultResponse.State
    FINISHED: GetProcedureResultResponse.State
    STATE_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_UPDATE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    EXCEPTION_FIELD_NUMBER: _ClassVar[int]
    state: GetProcedureResultResponse.State
    submitted_time: int
    last_update: int
    result: bytes
    exception: ForeignExceptionMessage
    def __init__(self, state: _Optional[_Union[GetProcedureResultResponse.State, str]] = ..., submitted_time: _Optional[int] = ..., last_update: _Optional[int] = ..., result: _Optional[bytes] = ..., exception: _Optional[_Union[ForeignExceptionMessage, _Mapping]] = ...) -> None: ...

class UserInformation(_message.Message):
    __slots__ = ("effective_user", "real_user")
    EFFECTIVE_USER_FIELD_NUMBER: _ClassVar[int]
    REAL_USER_FIELD_NUMBER: _ClassVar[int]
    effective_user: str
    real_user: str
    def __init__(self, effective_user: _Optional[str] = ..., real_user: _Optional[str] = ...) -> None: ...

class ConnectionHeader(_message.Message):
    __slots__ = ("user_info", "service_name", "cell_block_codec_class", "cell_block_compressor_class", "version_info")
    USER_INFO_FIELD_NUMBER: _ClassVar[int]
    SERVICE_NAME_FIELD_NUMBER: _ClassVar[int]
    CELL_BLOCK_CODEC_CLASS_FIELD_NUMBER: _ClassVar[int]
    CELL_BLOCK_COMPRESSOR_CLASS_FIELD_NUMBER: _ClassVar[int]
    VERSION_INFO_FIELD_NUMBER: _ClassVar[int]
    user_info: UserInformation
    service_name: str
    cell_block_codec_class: str
    cell_block_compressor_class: str
    version_info: VersionInfo
    def __init__(self, user_info: _Optional[_Union[UserInformation, _Mapping]] = ..., service_name: _Optional[str] = ..., cell_block_codec_class: _Optional[str] = ..., cell_block_compressor_class: _Optional[str] = ..., version_info: _Optional[_Union[VersionInfo, _Mapping]] = ...) -> None: ...

class SecurityPreamableResponse(_message.Message):
    __slots__ = ("server_principal",)
    SERVER_PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    server_principal: str
    def __init__(self, server_principal: _Optional[str] = ...) -> None: ...

class CellBlockMeta(_message.Message):
    __slots__ = ("length",)
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    length: int
    def __init__(self, length: _Optional[int] = ...) -> None: ...

class ExceptionResponse(_message.Message):
    __slots__ = ("exception_class_name", "stack_trace", "hostname", "port", "do_not_retry", "server_overloaded")
    EXCEPTION_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    STACK_TRACE_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    DO_NOT_RETRY_FIELD_NUMBER: _ClassVar[int]
    SERVER_OVERLOADED_FIELD_NUMBER: _ClassVar[int]
    exception_class_name: str
    stack_trace: str
    hostname: str
    port: int
    do_not_retry: bool
    server_overloaded: bool
    def __init__(self, exception_class_name: _Optional[str] = ..., stack_trace: _Optional[str] = ..., hostname: _Optional[str] = ..., port: _Optional[int] = ..., do_not_retry: _Optional[bool] = ..., server_overloaded: _Optional[bool] = ...) -> None: ...

class RequestHeader(_message.Message):
    __slots__ = ("call_id", "method_name", "request_param", "cell_block_meta", "priority", "timeout")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    METHOD_NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_PARAM_FIELD_NUMBER: _ClassVar[int]
    CELL_BLOCK_META_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    method_name: str
    request_param: bool
    cell_block_meta: CellBlockMeta
    priority: int
    timeout: int
    def __init__(self, call_id: _Optional[int] = ..., method_name: _Optional[str] = ..., request_param: _Optional[bool] = ..., cell_block_meta: _Optional[_Union[CellBlockMeta, _Mapping]] = ..., priority: _Optional[int] = ..., timeout: _Optional[int] = ...) -> None: ...

class ResponseHeader(_message.Message):
    __slots__ = ("call_id", "exception", "cell_block_meta")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    EXCEPTION_FIELD_NUMBER: _ClassVar[int]
    CELL_BLOCK_META_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    exception: ExceptionResponse
    cell_block_meta: CellBlockMeta
    def __init__(self, call_id: _Optional[int] = ..., exception: _Optional[_Union[ExceptionResponse, _Mapping]] = ..., cell_block_meta: _Optional[_Union[CellBlockMeta, _Mapping]] = ...) -> None: ...

class WALEntry(_message.Message):
    __slots__ = ("key", "key_value_bytes", "associated_cell_count")
    KEY_FIELD_NUMBER: _ClassVar[int]
    KEY_VALUE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ASSOCIATED_CELL_COUNT_FIELD_NUMBER: _ClassVar[int]
    key: WALKey
    key_value_bytes: _containers.RepeatedScalarFieldContainer[bytes]
    associated_cell_count: int
    def __init__(self, key: _Optional[_Union[WALKey, _Mapping]] = ..., key_value_bytes: _Optional[_Iterable[bytes]] = ..., associated_cell_count: _Optional[int] = ...) -> None: ...

class ReplicateWALEntryRequest(_message.Message):
    __slots__ = ("entry", "replicationClusterId", "sourceBaseNamespaceDirPath", "sourceHFileArchiveDirPath")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    REPLICATIONCLUSTERID_FIELD_NUMBER: _ClassVar[int]
    SOURCEBASENAMESPACEDIRPATH_FIELD_NUMBER: _ClassVar[int]
    SOURCEHFILEARCHIVEDIRPATH_FIELD_NUMBER: _ClassVar[int]
    entry: _containers.RepeatedCompositeFieldContainer[WALEntry]
    replicationClusterId: str
    sourceBaseNamespaceDirPath: str
    sourceHFileArchiveDirPath: str
    def __init__(self, entry: _Optional[_Iterable[_Union[WALEntry, _Mapping]]] = ..., replicationClusterId: _Optional[str] = ..., sourceBaseNamespaceDirPath: _Optional[str] = ..., sourceHFileArchiveDirPath: _Optional[str] = ...) -> None: ...

class ReplicateWALEntryResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RollWALWriterRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RollWALWriterResponse(_message.Message):
    __slots__ = ("region_to_flush",)
    REGION_TO_FLUSH_FIELD_NUMBER: _ClassVar[int]
    region_to_flush: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, region_to_flush: _Optional[_Iterable[bytes]] = ...) -> None: ...

class RegionInfo(_message.Message):
    __slots__ = ("region_id", "table_name", "start_key", "end_key", "offline", "split", "replica_id")
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    START_KEY_FIELD_NUMBER: _ClassVar[int]
    END_KEY_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    REPLICA_ID_FIELD_NUMBER: _ClassVar[int]
    region_id: int
    table_name: TableName
    start_key: bytes
    end_key: bytes
    offline: bool
    split: bool
    replica_id: int
    def __init__(self, region_id: _Optional[int] = ..., table_name: _Optional[_Union[TableName, _Mapping]] = ..., start_key: _Optional[bytes] = ..., end_key: _Optional[bytes] = ..., offline: _Optional[bool] = ..., split: _Optional[bool] = ..., replica_id: _Optional[int] = ...) -> None: ...

class MetaRegionServer(_message.Message):
    __slots__ = ("server", "rpc_version")
    SERVER_FIELD_NUMBER: _ClassVar[int]
    RPC_VERSION_FIELD_NUMBER: _ClassVar[int]
    server: ServerName
    rpc_version: int
    def __init__(self, server: _Optional[_Union[ServerName, _Mapping]] = ..., rpc_version: _Optional[int] = ...) -> None: ...

class RegionSpecifier(_message.Message):
    __slots__ = ("type", "value")
    class RegionSpecifierType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REGION_NAME: _ClassVar[RegionSpecifier.RegionSpecifierType]
        ENCODED_REGION_NAME: _ClassVar[RegionSpecifier.RegionSpecifierType]
    REGION_NAME: RegionSpecifier.RegionSpecifierType
    ENCODED_REGION_NAME: RegionSpecifier.RegionSpecifierType
    TYPE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    type: RegionSpecifier.RegionSpecifierType
    value: bytes
    def __init__(self, type: _Optional[_Union[RegionSpecifier.RegionSpecifierType, str]] = ..., value: _Optional[bytes] = ...) -> None: ...

class TimeRange(_message.Message):
    __slots__ = ("first", "end")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    first: int
    end: int
    def __init__(self, first: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class Column(_message.Message):
    __slots__ = ("family", "qualifier")
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    family: bytes
    qualifier: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, family: _Optional[bytes] = ..., qualifier: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Scan(_message.Message):
    __slots__ = ("column", "attribute", "start_row", "stop_row", "time_range", "max_versions", "cache_blocks", "max_result_size", "reversed")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    START_ROW_FIELD_NUMBER: _ClassVar[int]
    STOP_ROW_FIELD_NUMBER: _ClassVar[int]
    TIME_RANGE_FIELD_NUMBER: _ClassVar[int]
    MAX_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    CACHE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    MAX_RESULT_SIZE_FIELD_NUMBER: _ClassVar[int]
    REVERSED_FIELD_NUMBER: _ClassVar[int]
    column: _containers.RepeatedCompositeFieldContainer[Column]
    attribute: _containers.RepeatedCompositeFieldContainer[NameBytesPair]
    start_row: bytes
    stop_row: bytes
    time_range: TimeRange
    max_versions: int
    cache_blocks: bool
    max_result_size: int
    reversed: bool
    def __init__(self, column: _Optional[_Iterable[_Union[Column, _Mapping]]] = ..., attribute: _Optional[_Iterable[_Union[NameBytesPair, _Mapping]]] = ..., start_row: _Optional[bytes] = ..., stop_row: _Optional[bytes] = ..., time_range: _Optional[_Union[TimeRange, _Mapping]] = ..., max_versions: _Optional[int] = ..., cache_blocks: _Optional[bool] = ..., max_result_size: _Optional[int] = ..., reversed: _Optional[bool] = ...) -> None: ...

class ScanRequest(_message.Message):
    __slots__ = ("region", "scan", "scanner_id", "number_of_rows", "close_scanner", "next_call_seq", "client_handles_partials", "client_handles_heartbeats")
    REGION_FIELD_NUMBER: _ClassVar[int]
    SCAN_FIELD_NUMBER: _ClassVar[int]
    SCANNER_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_OF_ROWS_FIELD_NUMBER: _ClassVar[int]
    CLOSE_SCANNER_FIELD_NUMBER: _ClassVar[int]
    NEXT_CALL_SEQ_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HANDLES_PARTIALS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HANDLES_HEARTBEATS_FIELD_NUMBER: _ClassVar[int]
    region: RegionSpecifier
    scan: Scan
    scanner_id: int
    number_of_rows: int
    close_scanner: bool
    next_call_seq: int
    client_handles_partials: bool
    client_handles_heartbeats: bool
    def __init__(self, region: _Optional[_Union[RegionSpecifier, _Mapping]] = ..., scan: _Optional[_Union[Scan, _Mapping]] = ..., scanner_id: _Optional[int] = ..., number_of_rows: _Optional[int] = ..., close_scanner: _Optional[bool] = ..., next_call_seq: _Optional[int] = ..., client_handles_partials: _Optional[bool] = ..., client_handles_heartbeats: _Optional[bool] = ...) -> None: ...

class ScanResponse(_message.Message):
    __slots__ = ("cells_per_result", "scanner_id", "more_results", "partial_flag_per_result", "more_results_in_region")
    CELLS_PER_RESULT_FIELD_NUMBER: _ClassVar[int]
    SCANNER_ID_FIELD_NUMBER: _ClassVar[int]
    MORE_RESULTS_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FLAG_PER_RESULT_FIELD_NUMBER: _ClassVar[int]
    MORE_RESULTS_IN_REGION_FIELD_NUMBER: _ClassVar[int]
    cells_per_result: _containers.RepeatedScalarFieldContainer[int]
    scanner_id: int
    more_results: bool
    partial_flag_per_result: _containers.RepeatedScalarFieldContainer[bool]
    more_results_in_region: bool
    def __init__(self, cells_per_result: _Optional[_Iterable[int]] = ..., scanner_id: _Optional[int] = ..., more_results: _Optional[bool] = ..., partial_flag_per_result: _Optional[_Iterable[bool]] = ..., more_results_in_region: _Optional[bool] = ...) -> None: ...

class ServerLoad(_message.Message):
    __slots__ = ("report_end_time",)
    REPORT_END_TIME_FIELD_NUMBER: _ClassVar[int]
    report_end_time: int
    def __init__(self, report_end_time: _Optional[int] = ...) -> None: ...

class LiveServerInfo(_message.Message):
    __slots__ = ("server", "server_load")
    SERVER_FIELD_NUMBER: _ClassVar[int]
    SERVER_LOAD_FIELD_NUMBER: _ClassVar[int]
    server: ServerName
    server_load: ServerLoad
    def __init__(self, server: _Optional[_Union[ServerName, _Mapping]] = ..., server_load: _Optional[_Union[ServerLoad, _Mapping]] = ...) -> None: ...

class ClusterStatus(_message.Message):
    __slots__ = ("live_servers",)
    LIVE_SERVERS_FIELD_NUMBER: _ClassVar[int]
    live_servers: _containers.RepeatedCompositeFieldContainer[LiveServerInfo]
    def __init__(self, live_servers: _Optional[_Iterable[_Union[LiveServerInfo, _Mapping]]] = ...) -> None: ...

class GetClusterStatusRequest(_message.Message):
    __slots__ = ("options",)
    class Option(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        LIVE_SERVERS: _ClassVar[GetClusterStatusRequest.Option]
    LIVE_SERVERS: GetClusterStatusRequest.Option
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    options: _containers.RepeatedScalarFieldContainer[GetClusterStatusRequest.Option]
    def __init__(self, options: _Optional[_Iterable[_Union[GetClusterStatusRequest.Option, str]]] = ...) -> None: ...

class GetClusterStatusResponse(_message.Message):
    __slots__ = ("cluster_status",)
    CLUSTER_STATUS_FIELD_NUMBER: _ClassVar[int]
    cluster_status: ClusterStatus
    def __init__(self, cluster_status: _Optional[_Union[ClusterStatus, _Mapping]] = ...) -> None: ...

class SnapshotDescription(_message.Message):
    __slots__ = ("name", "table", "creation_time", "type", "ttl")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DISABLED: _ClassVar[SnapshotDescription.Type]
        FLUSH: _ClassVar[SnapshotDescription.Type]
        SKIPFLUSH: _ClassVar[SnapshotDescription.Type]
    DISABLED: SnapshotDescription.Type
    FLUSH: SnapshotDescription.Type
    SKIPFLUSH: SnapshotDescription.Type
    NAME_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    CREATION_TIME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    name: str
    table: str
    creation_time: int
    type: SnapshotDescription.Type
    ttl: int
    def __init__(self, name: _Optional[str] = ..., table: _Optional[str] = ..., creation_time: _Optional[int] = ..., type: _Optional[_Union[SnapshotDescription.Type, str]] = ..., ttl: _Optional[int] = ...) -> None: ...

class Reference(_message.Message):
    __slots__ = ("splitkey", "range")
    class Range(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TOP: _ClassVar[Reference.Range]
        BOTTOM: _ClassVar[Reference.Range]
    TOP: Reference.Range
    BOTTOM: Reference.Range
    SPLITKEY_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    splitkey: bytes
    range: Reference.Range
    def __init__(self, splitkey: _Optional[bytes] = ..., range: _Optional[_Union[Reference.Range, str]] = ...) -> None: ...

class SnapshotRegionManifest(_message.Message):
    __slots__ = ("version", "region_info", "family_files")
    class StoreFile(_message.Message):
        __slots__ = ("name", "reference", "file_size")
        NAME_FIELD_NUMBER: _ClassVar[int]
        REFERENCE_FIELD_NUMBER: _ClassVar[int]
        FILE_SIZE_FIELD_NUMBER: _ClassVar[int]
        name: str
        reference: Reference
        file_size: int
        def __init__(self, name: _Optional[str] = ..., reference: _Optional[_Union[Reference, _Mapping]] = ..., file_size: _Optional[int] = ...) -> None: ...
    class FamilyFiles(_message.Message):
        __slots__ = ("family_name", "store_files")
        FAMILY_NAME_FIELD_NUMBER: _ClassVar[int]
        STORE_FILES_FIELD_NUMBER: _ClassVar[int]
        family_name: bytes
        store_files: _containers.RepeatedCompositeFieldContainer[SnapshotRegionManifest.StoreFile]
        def __init__(self, family_name: _Optional[bytes] = ..., store_files: _Optional[_Iterable[_Union[SnapshotRegionManifest.StoreFile, _Mapping]]] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REGION_INFO_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FILES_FIELD_NUMBER: _ClassVar[int]
    version: int
    region_info: RegionInfo
    family_files: _containers.RepeatedCompositeFieldContainer[SnapshotRegionManifest.FamilyFiles]
    def __init__(self, version: _Optional[int] = ..., region_info: _Optional[_Union[RegionInfo, _Mapping]] = ..., family_files: _Optional[_Iterable[_Union[SnapshotRegionManifest.FamilyFiles, _Mapping]]] = ...) -> None: ...

class SnapshotDataManifest(_message.Message):
    __slots__ = ("table_schema", "region_manifests")
    TABLE_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    REGION_MANIFESTS_FIELD_NUMBER: _ClassVar[int]
    table_schema: TableSchema
    region_manifests: _containers.RepeatedCompositeFieldContainer[SnapshotRegionManifest]
    def __init__(self, table_schema: _Optional[_Union[TableSchema, _Mapping]] = ..., region_manifests: _Optional[_Iterable[_Union[SnapshotRegionManifest, _Mapping]]] = ...) -> None: ...

class FileInfoProto(_message.Message):
    __slots__ = ("map_entry",)
    MAP_ENTRY_FIELD_NUMBER: _ClassVar[int]
    map_entry: _containers.RepeatedCompositeFieldContainer[BytesBytesPair]
    def __init__(self, map_entry: _Optional[_Iterable[_Union[BytesBytesPair, _Mapping]]] = ...) -> None: ...

class FileTrailerProto(_message.Message):
    __slots__ = ("file_info_offset", "load_on_open_data_offset", "uncompressed_data_index_size", "total_uncompressed_bytes", "data_index_count", "meta_index_count", "entry_count", "num_data_index_levels", "first_data_block_offset", "last_data_block_offset", "comparator_class_name", "compression_codec", "encryption_key")
    FILE_INFO_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOAD_ON_OPEN_DATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    UNCOMPRESSED_DATA_INDEX_SIZE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_UNCOMPRESSED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATA_INDEX_COUNT_FIELD_NUMBER: _ClassVar[int]
    META_INDEX_COUNT_FIELD_NUMBER: _ClassVar[int]
    ENTRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    NUM_DATA_INDEX_LEVELS_FIELD_NUMBER: _ClassVar[int]
    FIRST_DATA_BLOCK_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_DATA_BLOCK_OFFSET_FIELD_NUMBER: _ClassVar[int]
    COMPARATOR_CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_CODEC_FIELD_NUMBER: _ClassVar[int]
    ENCRYPTION_KEY_FIELD_NUMBER: _ClassVar[int]
    file_info_offset: int
    load_on_open_data_offset: int
    uncompressed_data_index_size: int
    total_uncompressed_bytes: int
    data_index_count: int
    meta_index_count: int
    entry_count: int
    num_data_index_levels: int
    first_data_block_offset: int
    last_data_block_offset: int
    comparator_class_name: str
    compression_codec: int
    encryption_key: bytes
    def __init__(self, file_info_offset: _Optional[int] = ..., load_on_open_data_offset: _Optional[int] = ..., uncompressed_data_index_size: _Optional[int] = ..., total_uncompressed_bytes: _Optional[int] = ..., data_index_count: _Optional[int] = ..., meta_index_count: _Optional[int] = ..., entry_count: _Optional[int] = ..., num_data_index_levels: _Optional[int] = ..., first_data_block_offset: _Optional[int] = ..., last_data_block_offset: _Optional[int] = ..., comparator_class_name: _Optional[str] = ..., compression_codec: _Optional[int] = ..., encryption_key: _Optional[bytes] = ...) -> None: ...

class SnapshotRequest(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: SnapshotDescription
    def __init__(self, snapshot: _Optional[_Union[SnapshotDescription, _Mapping]] = ...) -> None: ...

class SnapshotResponse(_message.Message):
    __slots__ = ("expected_timeout",)
    EXPECTED_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    expected_timeout: int
    def __init__(self, expected_timeout: _Optional[int] = ...) -> None: ...

class IsSnapshotDoneRequest(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: SnapshotDescription
    def __init__(self, snapshot: _Optional[_Union[SnapshotDescription, _Mapping]] = ...) -> None: ...

class IsSnapshotDoneResponse(_message.Message):
    __slots__ = ("done",)
    DONE_FIELD_NUMBER: _ClassVar[int]
    done: bool
    def __init__(self, done: _Optional[bool] = ...) -> None: ...

class GetCompletedSnapshotsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetCompletedSnapshotsResponse(_message.Message):
    __slots__ = ("snapshots",)
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    snapshots: _containers.RepeatedCompositeFieldContainer[SnapshotDescription]
    def __init__(self, snapshots: _Optional[_Iterable[_Union[SnapshotDescription, _Mapping]]] = ...) -> None: ...

class DeleteSnapshotRequest(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: SnapshotDescription
    def __init__(self, snapshot: _Optional[_Union[SnapshotDescription, _Mapping]] = ...) -> None: ...

class DeleteSnapshotResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CreateTableRequest(_message.Message):
    __slots__ = ("table_schema", "split_keys")
    TABLE_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    SPLIT_KEYS_FIELD_NUMBER: _ClassVar[int]
    table_schema: TableSchema
    split_keys: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, table_schema: _Optional[_Union[TableSchema, _Mapping]] = ..., split_keys: _Optional[_Iterable[bytes]] = ...) -> None: ...

class CreateTableResponse(_message.Message):
    __slots__ = ("proc_id",)
    PROC_ID_FIELD_NUMBER: _ClassVar[int]
    proc_id: int
    def __init__(self, proc_id: _Optional[int] = ...) -> None: ...

class CreateNamespaceRequest(_message.Message):
    __slots__ = ("namespaceDescriptor",)
    NAMESPACEDESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    namespaceDescriptor: NamespaceDescriptor
    def __init__(self, namespaceDescriptor: _Optional[_Union[NamespaceDescriptor, _Mapping]] = ...) -> None: ...

class CreateNamespaceResponse(_message.Message):
    __slots__ = ("proc_id",)
    PROC_ID_FIELD_NUMBER: _ClassVar[int]
    proc_id: int
    def __init__(self, proc_id: _Optional[int] = ...) -> None: ...

class PrepareBulkLoadRequest(_message.Message):
    __slots__ = ("table_name", "region")
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    table_name: TableName
    region: RegionSpecifier
    def __init__(self, table_name: _Optional[_Union[TableName, _Mapping]] = ..., region: _Optional[_Union[RegionSpecifier, _Mapping]] = ...) -> None: ...

class PrepareBulkLoadResponse(_message.Message):
    __slots__ = ("bulk_token",)
    BULK_TOKEN_FIELD_NUMBER: _ClassVar[int]
    bulk_token: str
    def __init__(self, bulk_token: _Optional[str] = ...) -> None: ...

class BulkLoadHFileRequest(_message.Message):
    __slots__ = ("region", "family_path", "assign_seq_num", "bulk_token", "copy_file", "cluster_ids")
    class FamilyPath(_message.Message):
        __slots__ = ("family", "path")
        FAMILY_FIELD_NUMBER: _ClassVar[int]
        PATH_FIELD_NUMBER: _ClassVar[int]
        family: bytes
        path: str
        def __init__(self, family: _Optional[bytes] = ..., path: _Optional[str] = ...) -> None: ...
    REGION_FIELD_NUMBER: _ClassVar[int]
    FAMILY_PATH_FIELD_NUMBER: _ClassVar[int]
    ASSIGN_SEQ_NUM_FIELD_NUMBER: _ClassVar[int]
    BULK_TOKEN_FIELD_NUMBER: _ClassVar[int]
    COPY_FILE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_IDS_FIELD_NUMBER: _ClassVar[int]
    region: RegionSpecifier
    family_path: _containers.RepeatedCompositeFieldContainer[BulkLoadHFileRequest.FamilyPath]
    assign_seq_num: bool
    bulk_token: str
    copy_file: bool
    cluster_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, region: _Optional[_Union[RegionSpecifier, _Mapping]] = ..., family_path: _Optional[_Iterable[_Union[BulkLoadHFileRequest.FamilyPath, _Mapping]]] = ..., assign_seq_num: _Optional[bool] = ..., bulk_token: _Optional[str] = ..., copy_file: _Optional[bool] = ..., cluster_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class BulkLoadHFileResponse(_message.Message):
    __slots__ = ("loaded",)
    LOADED_FIELD_NUMBER: _ClassVar[int]
    loaded: bool
    def __init__(self, loaded: _Optional[bool] = ...) -> None: ...

class CleanupBulkLoadRequest(_message.Message):
    __slots__ = ("bulk_token", "region")
    BULK_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    bulk_token: str
    region: RegionSpecifier
    def __init__(self, bulk_token: _Optional[str] = ..., region: _Optional[_Union[RegionSpecifier, _Mapping]] = ...) -> None: ...

class CleanupBulkLoadResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Procedure(_message.Message):
    __slots__ = ("class_name", "state", "state_message")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        INITIALIZING: _ClassVar[Procedure.State]
        RUNNABLE: _ClassVar[Procedure.State]
        WAITING: _ClassVar[Procedure.State]
        WAITING_TIMEOUT: _ClassVar[Procedure.State]
        ROLLEDBACK: _ClassVar[Procedure.State]
        SUCCESS: _ClassVar[Procedure.State]
        FAILED: _ClassVar[Procedure.State]
    INITIALIZING: Procedure.State
    RUNNABLE: Procedure.State
    WAITING: Procedure.State
    WAITING_TIMEOUT: Procedure.State
    ROLLEDBACK: Procedure.State
    SUCCESS: Procedure.State
    FAILED: Procedure.State
    CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    class_name: str
    state: Procedure.State
    state_message: _containers.RepeatedCompositeFieldContainer[Any]
    def __init__(self, class_name: _Optional[str] = ..., state: _Optional[_Union[Procedure.State, str]] = ..., state_message: _Optional[_Iterable[_Union[Any, _Mapping]]] = ...) -> None: ...

class Any(_message.Message):
    __slots__ = ("type_url", "value")
    TYPE_URL_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    type_url: str
    value: bytes
    def __init__(self, type_url: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class StateMachineProcedureData(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, state: _Optional[_Iterable[int]] = ...) -> None: ...

class GetProceduresRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetProceduresResponse(_message.Message):
    __slots__ = ("procedure",)
    PROCEDURE_FIELD_NUMBER: _ClassVar[int]
    procedure: _containers.RepeatedCompositeFieldContainer[Procedure]
    def __init__(self, procedure: _Optional[_Iterable[_Union[Procedure, _Mapping]]] = ...) -> None: ...

class Comparator(_message.Message):
    __slots__ = ("name", "serialized_comparator")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SERIALIZED_COMPARATOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    serialized_comparator: bytes
    def __init__(self, name: _Optional[str] = ..., serialized_comparator: _Optional[bytes] = ...) -> None: ...

class ByteArrayComparable(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    def __init__(self, value: _Optional[bytes] = ...) -> None: ...

class BinaryComparator(_message.Message):
    __slots__ = ("comparable",)
    COMPARABLE_FIELD_NUMBER: _ClassVar[int]
    comparable: ByteArrayComparable
    def __init__(self, comparable: _Optional[_Union[ByteArrayComparable, _Mapping]] = ...) -> None: ...

class Condition(_message.Message):
    __slots__ = ("row", "family", "qualifier", "compare_type", "comparator")
    ROW_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    COMPARE_TYPE_FIELD_NUMBER: _ClassVar[int]
    COMPARATOR_FIELD_NUMBER: _ClassVar[int]
    row: bytes
    family: bytes
    qualifier: bytes
    compare_type: CompareType
    comparator: Comparator
    def __init__(self, row: _Optional[bytes] = ..., family: _Optional[bytes] = ..., qualifier: _Optional[bytes] = ..., compare_type: _Optional[_Union[CompareType, str]] = ..., comparator: _Optional[_Union[Comparator, _Mapping]] = ...) -> None: ...

class MutationProto(_message.Message):
    __slots__ = ("row", "mutate_type", "column_value")
    class MutationType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PUT: _ClassVar[MutationProto.MutationType]
        DELETE: _ClassVar[MutationProto.MutationType]
    PUT: MutationProto.MutationType
    DELETE: MutationProto.MutationType
    class DeleteType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DELETE_MULTIPLE_VERSIONS: _ClassVar[MutationProto.DeleteType]
        DELETE_FAMILY: _ClassVar[MutationProto.DeleteType]
    DELETE_MULTIPLE_VERSIONS: MutationProto.DeleteType
    DELETE_FAMILY: MutationProto.DeleteType
    class ColumnValue(_message.Message):
        __slots__ = ("family", "qualifier_value")
        class QualifierValue(_message.Message):
            __slots__ = ("qualifier", "value", "delete_type")
            QUALIFIER_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            DELETE_TYPE_FIELD_NUMBER: _ClassVar[int]
            qualifier: bytes
            value: bytes
            delete_type: MutationProto.DeleteType
            def __init__(self, qualifier: _Optional[bytes] = ..., value: _Optional[bytes] = ..., delete_type: _Optional[_Union[MutationProto.DeleteType, str]] = ...) -> None: ...
        FAMILY_FIELD_NUMBER: _ClassVar[int]
        QUALIFIER_VALUE_FIELD_NUMBER: _ClassVar[int]
        family: bytes
        qualifier_value: _containers.RepeatedCompositeFieldContainer[MutationProto.ColumnValue.QualifierValue]
        def __init__(self, family: _Optional[bytes] = ..., qualifier_value: _Optional[_Iterable[_Union[MutationProto.ColumnValue.QualifierValue, _Mapping]]] = ...) -> None: ...
    ROW_FIELD_NUMBER: _ClassVar[int]
    MUTATE_TYPE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_VALUE_FIELD_NUMBER: _ClassVar[int]
    row: bytes
    mutate_type: MutationProto.MutationType
    column_value: _containers.RepeatedCompositeFieldContainer[MutationProto.ColumnValue]
    def __init__(self, row: _Optional[bytes] = ..., mutate_type: _Optional[_Union[MutationProto.MutationType, str]] = ..., column_value: _Optional[_Iterable[_Union[MutationProto.ColumnValue, _Mapping]]] = ...) -> None: ...

class MutateRowsRequest(_message.Message):
    __slots__ = ("mutation_request", "condition")
    MUTATION_REQUEST_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    mutation_request: _containers.RepeatedCompositeFieldContainer[MutationProto]
    condition: _containers.RepeatedCompositeFieldContainer[Condition]
    def __init__(self, mutation_request: _Optional[_Iterable[_Union[MutationProto, _Mapping]]] = ..., condition: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ...) -> None: ...

class MutateRowsResponse(_message.Message):
    __slots__ = ("processed",)
    PROCESSED_FIELD_NUMBER: _ClassVar[int]
    processed: bool
    def __init__(self, processed: _Optional[bool] = ...) -> None: ...

class CoprocessorServiceCall(_message.Message):
    __slots__ = ("row", "service_name", "method_name", "request")
    ROW_FIELD_NUMBER: _ClassVar[int]
    SERVICE_NAME_FIELD_NUMBER: _ClassVar[int]
    METHOD_NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    row: bytes
    service_name: str
    method_name: str
    request: bytes
    def __init__(self, row: _Optional[bytes] = ..., service_name: _Optional[str] = ..., method_name: _Optional[str] = ..., request: _Optional[bytes] = ...) -> None: ...

class CoprocessorServiceRequest(_message.Message):
    __slots__ = ("region", "call")
    REGION_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    region: RegionSpecifier
    call: CoprocessorServiceCall
    def __init__(self, region: _Optional[_Union[RegionSpecifier, _Mapping]] = ..., call: _Optional[_Union[CoprocessorServiceCall, _Mapping]] = ...) -> None: ...

class CoprocessorServiceResponse(_message.Message):
    __slots__ = ("region", "value")
    REGION_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    region: RegionSpecifier
    value: NameBytesPair
    def __init__(self, region: _Optional[_Union[RegionSpecifier, _Mapping]] = ..., value: _Optional[_Union[NameBytesPair, _Mapping]] = ...) -> None: ...

class RegionLoad(_message.Message):
    __slots__ = ("region_specifier", "storefiles", "write_requests_count", "complete_sequence_id")
    REGION_SPECIFIER_FIELD_NUMBER: _ClassVar[int]
    STOREFILES_FIELD_NUMBER: _ClassVar[int]
    WRITE_REQUESTS_COUNT_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_SEQUENCE_ID_FIELD_NUMBER: _ClassVar[int]
    region_specifier: RegionSpecifier
    storefiles: int
    write_requests_count: int
    complete_sequence_id: int
    def __init__(self, region_specifier: _Optional[_Union[RegionSpecifier, _Mapping]] = ..., storefiles: _Optional[int] = ..., write_requests_count: _Optional[int] = ..., complete_sequence_id: _Optional[int] = ...) -> None: ...

class GetRegionLoadRequest(_message.Message):
    __slots__ = ("table_name",)
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    table_name: TableName
    def __init__(self, table_name: _Optional[_Union[TableName, _Mapping]] = ...) -> None: ...

class GetRegionLoadResponse(_message.Message):
    __slots__ = ("region_loads",)
    REGION_LOADS_FIELD_NUMBER: _ClassVar[int]
    region_loads: _containers.RepeatedCompositeFieldContainer[RegionLoad]
    def __init__(self, region_loads: _Optional[_Iterable[_Union[RegionLoad, _Mapping]]] = ...) -> None: ...

class GetStoreFileRequest(_message.Message):
    __slots__ = ("region", "family")
    REGION_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    region: RegionSpecifier
    family: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, region: _Optional[_Union[RegionSpecifier, _Mapping]] = ..., family: _Optional[_Iterable[bytes]] = ...) -> None: ...

class GetStoreFileResponse(_message.Message):
    __slots__ = ("store_file",)
    STORE_FILE_FIELD_NUMBER: _ClassVar[int]
    store_file: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, store_file: _Optional[_Iterable[str]] = ...) -> None: ...

class GetOnlineRegionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetOnlineRegionResponse(_message.Message):
    __slots__ = ("region_info",)
    REGION_INFO_FIELD_NUMBER: _ClassVar[int]
    region_info: _containers.RepeatedCompositeFieldContainer[RegionInfo]
    def __init__(self, region_info: _Optional[_Iterable[_Union[RegionInfo, _Mapping]]] = ...) -> None: ...

class OpenRegionRequest(_message.Message):
    __slots__ = ("open_info", "serverStartCode", "master_system_time")
    class RegionOpenInfo(_message.Message):
        __slots__ = ("region", "version_of_offline_node", "openForDistributedLogReplay")
        REGION_FIELD_NUMBER: _ClassVar[int]
        VERSION_OF_OFFLINE_NODE_FIELD_NUMBER: _ClassVar[int]
        OPENFORDISTRIBUTEDLOGREPLAY_FIELD_NUMBER: _ClassVar[int]
        region: RegionInfo
        version_of_offline_node: int
        openForDistributedLogReplay: bool
        def __init__(self, region: _Optional[_Union[RegionInfo, _Mapping]] = ..., version_of_offline_node: _Optional[int] = ..., openForDistributedLogReplay: _Optional[bool] = ...) -> None: ...
    OPEN_INFO_FIELD_NUMBER: _ClassVar[int]
    SERVERSTARTCODE_FIELD_NUMBER: _ClassVar[int]
    MASTER_SYSTEM_TIME_FIELD_NUMBER: _ClassVar[int]
    open_info: _containers.RepeatedCompositeFieldContainer[OpenRegionRequest.RegionOpenInfo]
    serverStartCode: int
    master_system_time: int
    def __init__(self, open_info: _Optional[_Iterable[_Union[OpenRegionRequest.RegionOpenInfo, _Mapping]]] = ..., serverStartCode: _Optional[int] = ..., master_system_time: _Optional[int] = ...) -> None: ...

class OpenRegionResponse(_message.Message):
    __slots__ = ("opening_state",)
    class RegionOpeningState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OPENED: _ClassVar[OpenRegionResponse.RegionOpeningState]
        ALREADY_OPENED: _ClassVar[OpenRegionResponse.RegionOpeningState]
        FAILED_OPENING: _ClassVar[OpenRegionResponse.RegionOpeningState]
    OPENED: OpenRegionResponse.RegionOpeningState
    ALREADY_OPENED: OpenRegionResponse.RegionOpeningState
    FAILED_OPENING: OpenRegionResponse.RegionOpeningState
    OPENING_STATE_FIELD_NUMBER: _ClassVar[int]
    opening_state: _containers.RepeatedScalarFieldContainer[OpenRegionResponse.RegionOpeningState]
    def __init__(self, opening_state: _Optional[_Iterable[_Union[OpenRegionResponse.RegionOpeningState, str]]] = ...) -> None: ...

class CloseRegionRequest(_message.Message):
    __slots__ = ("region", "version_of_closing_node", "transition_in_ZK", "destination_server", "serverStartCode")
    REGION_FIELD_NUMBER: _ClassVar[int]
    VERSION_OF_CLOSING_NODE_FIELD_NUMBER: _ClassVar[int]
    TRANSITION_IN_ZK_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_SERVER_FIELD_NUMBER: _ClassVar[int]
    SERVERSTARTCODE_FIELD_NUMBER: _ClassVar[int]
    region: RegionSpecifier
    version_of_closing_node: int
    transition_in_ZK: bool
    destination_server: ServerName
    serverStartCode: int
    def __init__(self, region: _Optional[_Union[RegionSpecifier, _Mapping]] = ..., version_of_closing_node: _Optional[int] = ..., transition_in_ZK: _Optional[bool] = ..., destination_server: _Optional[_Union[ServerName, _Mapping]] = ..., serverStartCode: _Optional[int] = ...) -> None: ...

class CloseRegionResponse(_message.Message):
    __slots__ = ("closed",)
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    closed: bool
    def __init__(self, closed: _Optional[bool] = ...) -> None: ...

class RegionServerStartupRequest(_message.Message):
    __slots__ = ("port", "server_start_code", "server_current_time", "use_this_hostname_instead")
    PORT_FIELD_NUMBER: _ClassVar[int]
    SERVER_START_CODE_FIELD_NUMBER: _ClassVar[int]
    SERVER_CURRENT_TIME_FIELD_NUMBER: _ClassVar[int]
    USE_THIS_HOSTNAME_INSTEAD_FIELD_NUMBER: _ClassVar[int]
    port: int
    server_start_code: int
    server_current_time: int
    use_this_hostname_instead: str
    def __init__(self, port: _Optional[int] = ..., server_start_code: _Optional[int] = ..., server_current_time: _Optional[int] = ..., use_this_hostname_instead: _Optional[str] = ...) -> None: ...

class RegionServerStartupResponse(_message.Message):
    __slots__ = ("map_entries",)
    MAP_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    map_entries: _containers.RepeatedCompositeFieldContainer[NameStringPair]
    def __init__(self, map_entries: _Optional[_Iterable[_Union[NameStringPair, _Mapping]]] = ...) -> None: ...

class RegionServerReportRequest(_message.Message):
    __slots__ = ("server",)
    SERVER_FIELD_NUMBER: _ClassVar[int]
    server: ServerName
    def __init__(self, server: _Optional[_Union[ServerName, _Mapping]] = ...) -> None: ...

class RegionServerReportResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReportRSFatalErrorRequest(_message.Message):
    __slots__ = ("server", "error_message")
    SERVER_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    server: ServerName
    error_message: str
    def __init__(self, server: _Optional[_Union[ServerName, _Mapping]] = ..., error_message: _Optional[str] = ...) -> None: ...

class ReportRSFatalErrorResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetLastFlushedSequenceIdRequest(_message.Message):
    __slots__ = ("region_name",)
    REGION_NAME_FIELD_NUMBER: _ClassVar[int]
    region_name: bytes
    def __init__(self, region_name: _Optional[bytes] = ...) -> None: ...

class GetLastFlushedSequenceIdResponse(_message.Message):
    __slots__ = ("last_flushed_sequence_id",)
    LAST_FLUSHED_SEQUENCE_ID_FIELD_NUMBER: _ClassVar[int]
    last_flushed_sequence_id: int
    def __init__(self, last_flushed_sequence_id: _Optional[int] = ...) -> None: ...

class ReportRegionStateTransitionRequest(_message.Message):
    __slots__ = ("server",)
    SERVER_FIELD_NUMBER: _ClassVar[int]
    server: ServerName
    def __init__(self, server: _Optional[_Union[ServerName, _Mapping]] = ...) -> None: ...

class ReportRegionStateTransitionResponse(_message.Message):
    __slots__ = ("error_message",)
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    error_message: str
    def __init__(self, error_message: _Optional[str] = ...) -> None: ...

class IsMasterRunningRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IsMasterRunningResponse(_message.Message):
    __slots__ = ("is_master_running",)
    IS_MASTER_RUNNING_FIELD_NUMBER: _ClassVar[int]
    is_master_running: bool
    def __init__(self, is_master_running: _Optional[bool] = ...) -> None: ...

class EnableTableRequest(_message.Message):
    __slots__ = ("table_name", "nonce_group", "nonce")
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    NONCE_GROUP_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    table_name: TableName
    nonce_group: int
    nonce: int
    def __init__(self, table_name: _Optional[_Union[TableName, _Mapping]] = ..., nonce_group: _Optional[int] = ..., nonce: _Optional[int] = ...) -> None: ...

class EnableTableResponse(_message.Message):
    __slots__ = ("proc_id",)
    PROC_ID_FIELD_NUMBER: _ClassVar[int]
    proc_id: int
    def __init__(self, proc_id: _Optional[int] = ...) -> None: ...

class DisableTableRequest(_message.Message):
    __slots__ = ("table_name", "nonce_group", "nonce")
    TABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    NONCE_GROUP_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    table_name: TableName
    nonce_group: int
    nonce: int
    def __init__(self, table_name: _Optional[_Union[TableName, _Mapping]] = ..., nonce_group: _Optional[int] = ..., nonce: _Optional[int] = ...) -> None: ...

class DisableTableResponse(_message.Message):
    __slots__ = ("proc_id",)
    PROC_ID_FIELD_NUMBER: _ClassVar[int]
    proc_id: int
    def __init__(self, proc_id: _Optional[int] = ...) -> None: ...

class ClusterUp(_message.Message):
    __slots__ = ("start_date",)
    START_DATE_FIELD_NUMBER: _ClassVar[int]
    start_date: str
    def __init__(self, start_date: _Optional[str] = ...) -> None: ...

class GetServerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServerInfo(_message.Message):
    __slots__ = ("server_name",)
    SERVER_NAME_FIELD_NUMBER: _ClassVar[int]
    server_name: ServerName
    def __init__(self, server_name: _Optional[_Union[ServerName, _Mapping]] = ...) -> None: ...

class GetServerInfoResponse(_message.Message):
    __slots__ = ("server_info",)
    SERVER_INFO_FIELD_NUMBER: _ClassVar[int]
    server_info: ServerInfo
    def __init__(self, server_info: _Optional[_Union[ServerInfo, _Mapping]] = ...) -> None: ...

class Table(_message.Message):
    __slots__ = ("state",)
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ENABLED: _ClassVar[Table.State]
        DISABLED: _ClassVar[Table.State]
        DISABLING: _ClassVar[Table.State]
        ENABLING: _ClassVar[Table.State]
    ENABLED: Table.State
    DISABLED: Table.State
    DISABLING: Table.State
    ENABLING: Table.State
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: Table.State
    def __init__(self, state: _Optional[_Union[Table.State, str]] = ...) -> None: ...

class SplitLogTask(_message.Message):
    __slots__ = ("state", "server_name", "mode")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNASSIGNED: _ClassVar[SplitLogTask.State]
        OWNED: _ClassVar[SplitLogTask.State]
        RESIGNED: _ClassVar[SplitLogTask.State]
        DONE: _ClassVar[SplitLogTask.State]
        ERR: _ClassVar[SplitLogTask.State]
    UNASSIGNED: SplitLogTask.State
    OWNED: SplitLogTask.State
    RESIGNED: SplitLogTask.State
    DONE: SplitLogTask.State
    ERR: SplitLogTask.State
    class RecoveryMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[SplitLogTask.RecoveryMode]
        LOG_SPLITTING: _ClassVar[SplitLogTask.RecoveryMode]
        LOG_REPLAY: _ClassVar[SplitLogTask.RecoveryMode]
    UNKNOWN: SplitLogTask.RecoveryMode
    LOG_SPLITTING: SplitLogTask.RecoveryMode
    LOG_REPLAY: SplitLogTask.RecoveryMode
    STATE_FIELD_NUMBER: _ClassVar[int]
    SERVER_NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    state: SplitLogTask.State
    server_name: ServerName
    mode: SplitLogTask.RecoveryMode
    def __init__(self, state: _Optional[_Union[SplitLogTask.State, str]] = ..., server_name: _Optional[_Union[ServerName, _Mapping]] = ..., mode: _Optional[_Union[SplitLogTask.RecoveryMode, str]] = ...) -> None: ...
