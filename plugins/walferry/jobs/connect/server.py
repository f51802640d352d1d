"""A connection to a Spark Connect server, with the calls that Walferry makes."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from walferry.base.closing import Closing
from walferry.base.protos import spark_connect_pb2 as messages
from walferry.jobs.connect.errors import error_of

DEFAULT_PORT = 15002
CALL_SECONDS = 20.0
STREAM_SECONDS = 60.0  # then the stream is opened again: this detects a server machine that died silently
MAX_ANSWER_BYTES = 16 << 20  # Spark sends 4 MB of rows at a time
_SERVICE = "/spark.connect.SparkConnectService/"

M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class Address:
    """Where a server listens, and how Walferry logs in. The token is secret, so no text shows it."""

    host: str
    port: int = DEFAULT_PORT
    user: str = "walferry"  # sessions belong to a user
    token: str = field(default="", repr=False)
    tls: bool = False
    tasks: int = 8  # of one job side by side: peers share the server, so one with a slow peer cluster must leave room

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host and not self.host.startswith("[") else f"{self.host}:{self.port}"

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the server."""
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return self.host == "localhost"


class Server(Closing):
    """A connection to a server, made by the first call. All calls raise ConnectFailed and its subclasses."""

    def __init__(self, address: Address) -> None:
        self.address = address
        options = [("grpc.max_receive_message_length", MAX_ANSWER_BYTES), ("grpc.enable_http_proxy", 0 if address.local else 1)]
        if address.tls:
            self._channel = grpc.secure_channel(str(address), grpc.ssl_channel_credentials(), options)
        else:
            self._channel = grpc.insecure_channel(str(address), options)
        self._metadata = (("authorization", f"Bearer {address.token}"),) if address.token else ()

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def add_artifacts(self, request: messages.AddArtifactsRequest) -> messages.AddArtifactsResponse:
        """Send files to a session."""
        call = self._channel.stream_unary(f"{_SERVICE}AddArtifacts", _serialized, messages.AddArtifactsResponse.FromString)
        with self._errors():
            answer: messages.AddArtifactsResponse = call(iter([request]), timeout=CALL_SECONDS, metadata=self._metadata)
        return answer

    def call(self, method: str, request: Message, answer: type[M]) -> M:
        """Make a call with one answer."""
        call = self._channel.unary_unary(_SERVICE + method, _serialized, answer.FromString)
        with self._errors():
            answered: M = call(request, timeout=CALL_SECONDS, metadata=self._metadata)
        return answered

    def stream(self, method: str, request: Message) -> Iterator[messages.ExecutePlanResponse]:
        """Begin an execution, or go on with one, and yield its responses as they come."""
        call = self._channel.unary_stream(_SERVICE + method, _serialized, messages.ExecutePlanResponse.FromString)
        with self._errors():
            yield from call(request, timeout=STREAM_SECONDS, metadata=self._metadata)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            raise error_of(str(self.address), error, self.address.token) from None


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()
