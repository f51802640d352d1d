"""Errors of a Spark Connect server."""

from __future__ import annotations

import re

import grpc

from walferry.base.errors import WalferryError
from walferry.base.jobs import BackendFailed
from walferry.base.texts import one_line

MAX_DETAIL_CHARS = 1000
_REFUSED = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
_CONDITION = re.compile(r"\[([A-Z_]+(?:\.[A-Z_]+)?)\]")  # Spark's messages begin like this


class ConnectFailed(BackendFailed):
    """A Spark Connect server cannot run a job now. spark-submit may."""


class ServerGone(ConnectFailed):
    """The server does not answer."""


class TimedOut(ServerGone):
    """The call has taken longer than it may."""


class ServerRefuses(ConnectFailed):
    """The server refuses our login."""


class SessionClosed(ConnectFailed):
    """The server has closed the session, and does not open it again under its id."""


class OperationLost(ConnectFailed):
    """The server does not know the job any more: it was restarted, or has given the job up."""


class Interrupted(WalferryError):
    """The job was ended on purpose."""


_OF_CONDITION: dict[str, type[WalferryError]] = {
    "INVALID_HANDLE.SESSION_CLOSED": SessionClosed,
    "INVALID_HANDLE.SESSION_NOT_FOUND": OperationLost,
    "INVALID_HANDLE.OPERATION_NOT_FOUND": OperationLost,
    "INVALID_HANDLE.OPERATION_ABANDONED": OperationLost,
    "INVALID_CURSOR.POSITION_NOT_FOUND": OperationLost,
    "OPERATION_CANCELED": Interrupted,
}
_OTHER_PYTHON = (
    "Its workers need a Python of the same minor version as Airflow's: start it with a PYSPARK_PYTHON that names such a Python"
)


def error_of(server: str, error: grpc.RpcError, token: str = "") -> WalferryError:
    """Return the error that gRPC's error means. It names `server`, with the server's message as one line without `token`."""
    code, said = grpc.StatusCode.UNKNOWN, str(error)
    if isinstance(error, grpc.Call):
        code, said = error.code() or code, error.details() or ""
    if token:
        said = said.replace(token, "(the token)")
    problem = f"Spark Connect server {server}: {one_line(said, MAX_DETAIL_CHARS) or code.name}"
    if code is grpc.StatusCode.UNAVAILABLE:
        return ServerGone(problem, "Start it, or correct host and port of the connection")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return TimedOut(problem)
    if code in _REFUSED:
        return ServerRefuses(problem, "Its token is the password of the connection")
    if "PYTHON_VERSION_MISMATCH" in said:  # inside of the error of a task
        return ConnectFailed(problem, _OTHER_PYTHON)
    condition = _CONDITION.search(said)
    return _OF_CONDITION.get(condition[1] if condition else "", ConnectFailed)(problem)
