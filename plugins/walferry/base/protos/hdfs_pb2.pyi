from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RpcRequestHeader(_message.Message):
    __slots__ = ("rpcKind", "rpcOp", "callId", "clientId", "retryCount")
    RPCKIND_FIELD_NUMBER: _ClassVar[int]
    RPCOP_FIELD_NUMBER: _ClassVar[int]
    CALLID_FIELD_NUMBER: _ClassVar[int]
    CLIENTID_FIELD_NUMBER: _ClassVar[int]
    RETRYCOUNT_FIELD_NUMBER: _ClassVar[int]
    rpcKind: int
    rpcOp: int
    callId: int
    clientId: bytes
    retryCount: int
    def __init__(self, rpcKind: _Optional[int] = ..., rpcOp: _Optional[int] = ..., callId: _Optional[int] = ..., clientId: _Optional[bytes] = ..., retryCount: _Optional[int] = ...) -> None: ...

class RpcResponseHeader(_message.Message):
    __slots__ = ("callId", "status", "exceptionClassName", "errorMsg")
    CALLID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    EXCEPTIONCLASSNAME_FIELD_NUMBER: _ClassVar[int]
    ERRORMSG_FIELD_NUMBER: _ClassVar[int]
    callId: int
    status: int
    exceptionClassName: str
    errorMsg: str
    def __init__(self, callId: _Optional[int] = ..., status: _Optional[int] = ..., exceptionClassName: _Optional[str] = ..., errorMsg: _Optional[str] = ...) -> None: ...

class SaslAuth(_message.Message):
    __slots__ = ("method", "mechanism", "protocol", "serverId")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SERVERID_FIELD_NUMBER: _ClassVar[int]
    method: str
    mechanism: str
    protocol: str
    serverId: str
    def __init__(self, method: _Optional[str] = ..., mechanism: _Optional[str] = ..., protocol: _Optional[str] = ..., serverId: _Optional[str] = ...) -> None: ...

class RpcSasl(_message.Message):
    __slots__ = ("state", "token", "auths")
    STATE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    AUTHS_FIELD_NUMBER: _ClassVar[int]
    state: int
    token: bytes
    auths: _containers.RepeatedCompositeFieldContainer[SaslAuth]
    def __init__(self, state: _Optional[int] = ..., token: _Optional[bytes] = ..., auths: _Optional[_Iterable[_Union[SaslAuth, _Mapping]]] = ...) -> None: ...

class UserInformation(_message.Message):
    __slots__ = ("effectiveUser",)
    EFFECTIVEUSER_FIELD_NUMBER: _ClassVar[int]
    effectiveUser: str
    def __init__(self, effectiveUser: _Optional[str] = ...) -> None: ...

class IpcConnectionContext(_message.Message):
    __slots__ = ("userInfo", "protocol")
    USERINFO_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    userInfo: UserInformation
    protocol: str
    def __init__(self, userInfo: _Optional[_Union[UserInformation, _Mapping]] = ..., protocol: _Optional[str] = ...) -> None: ...

class RequestHeader(_message.Message):
    __slots__ = ("methodName", "declaringClassProtocolName", "clientProtocolVersion")
    METHODNAME_FIELD_NUMBER: _ClassVar[int]
    DECLARINGCLASSPROTOCOLNAME_FIELD_NUMBER: _ClassVar[int]
    CLIENTPROTOCOLVERSION_FIELD_NUMBER: _ClassVar[int]
    methodName: str
    declaringClassProtocolName: str
    clientProtocolVersion: int
    def __init__(self, methodName: _Optional[str] = ..., declaringClassProtocolName: _Optional[str] = ..., clientProtocolVersion: _Optional[int] = ...) -> None: ...

class CheckAccessRequest(_message.Message):
    __slots__ = ("path", "mode")
    PATH_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    path: str
    mode: int
    def __init__(self, path: _Optional[str] = ..., mode: _Optional[int] = ...) -> None: ...

class GetFsStatsResponse(_message.Message):
    __slots__ = ("capacity", "used", "remaining")
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    capacity: int
    used: int
    remaining: int
    def __init__(self, capacity: _Optional[int] = ..., used: _Optional[int] = ..., remaining: _Optional[int] = ...) -> None: ...
