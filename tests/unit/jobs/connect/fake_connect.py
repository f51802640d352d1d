"""A Spark Connect server for unit tests: it gives the answers that a test sets, and records the requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from walferry.base.protos import spark_connect_pb2 as messages
from walferry.jobs.connect.server import Address

SERVICE = "spark.connect.SparkConnectService"


class Broken(Exception):
    """The connection breaks here."""


class Silence(Exception):
    """From here on the server says nothing, until the client gives up the stream."""


@dataclass
class Fake:
    """`streams` are the responses of each call of ExecutePlan or ReattachExecute; an exception among them breaks the stream."""

    streams: list[list[messages.ExecutePlanResponse | Exception]] = field(default_factory=list)
    closed: set[str] = field(default_factory=set)  # sessions
    has: set[tuple[str, str]] = field(default_factory=set)  # session, artifact
    damaged: bool = False
    mixed_up: int = 0  # how often artifacts are mixed up with those of another client, who gives them meanwhile
    silent: bool = False  # it answers no question of which artifacts it has
    token: str = ""
    asked: list[tuple[str, Any]] = field(default_factory=list)
    port: int = 0

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.port, token=self.token)

    def calls(self, method: str) -> list[Any]:
        return [request for name, request in self.asked if name == method]

    def note(self, method: str, request: Any, context: grpc.ServicerContext) -> None:
        """Remember a call; refuse it without the token, or for a session that is closed."""
        self.asked.append((method, request))
        sent = dict(context.invocation_metadata()).get("authorization", "")
        if self.token and sent != f"Bearer {self.token}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "Invalid authentication token")
        if request.session_id in self.closed:
            context.abort(grpc.StatusCode.INTERNAL, f"[INVALID_HANDLE.SESSION_CLOSED] {request.session_id} is invalid.")

    def add_artifacts(self, requests: Iterable[Any], context: grpc.ServicerContext) -> messages.AddArtifactsResponse:
        answer = messages.AddArtifactsResponse()
        for request in requests:
            self.note("AddArtifacts", request, context)
            if self.mixed_up:
                self.mixed_up -= 1
                context.abort(grpc.StatusCode.INTERNAL, f"/tmp/artifacts/{request.batch.artifacts[0].name}")
            for artifact in request.batch.artifacts:
                if not self.damaged:
                    self.has.add((request.session_id, artifact.name))
                answer.artifacts.add(name=artifact.name, is_crc_successful=not self.damaged)
        return answer

    def artifact_status(self, request: Any, context: grpc.ServicerContext) -> messages.ArtifactStatusesResponse:
        self.note("ArtifactStatus", request, context)
        if self.silent:
            await_end(context)
        answer = messages.ArtifactStatusesResponse()
        for name in request.names:
            answer.statuses[name].exists = (request.session_id, name) in self.has
        return answer

    def interrupt(self, request: Any, context: grpc.ServicerContext) -> messages.InterruptResponse:
        self.note("Interrupt", request, context)
        return messages.InterruptResponse(interrupted_ids=["one"])

    def release(self, request: Any, context: grpc.ServicerContext) -> messages.ReleaseExecuteResponse:
        self.note("ReleaseExecute", request, context)
        return messages.ReleaseExecuteResponse()

    def stream(self, method: str) -> Callable[[Any, grpc.ServicerContext], Iterator[messages.ExecutePlanResponse]]:
        def respond(request: Any, context: grpc.ServicerContext) -> Iterator[messages.ExecutePlanResponse]:
            self.note(method, request, context)
            for response in self.streams.pop(0):
                if isinstance(response, Silence):
                    await_end(context)
                    return
                if isinstance(response, Broken):
                    context.abort(grpc.StatusCode.UNAVAILABLE, "Connection reset by peer")
                if isinstance(response, Exception):
                    context.abort(grpc.StatusCode.INTERNAL, str(response))
                assert isinstance(response, messages.ExecutePlanResponse)
                yield response

        return respond


def await_end(context: grpc.ServicerContext) -> None:
    """Wait until the client has given up the call."""
    ended = threading.Event()
    if context.add_callback(ended.set):
        ended.wait()


@contextmanager
def serving(fake: Fake) -> Iterator[Fake]:
    """Let it listen while the block runs."""

    def unary(handler: Callable[..., Any], request: Any) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(handler, request.FromString, lambda answer: answer.SerializeToString())

    def streaming(method: str, request: Any) -> grpc.RpcMethodHandler:
        return grpc.unary_stream_rpc_method_handler(
            fake.stream(method), request.FromString, lambda answer: answer.SerializeToString()
        )

    handlers = {
        "AddArtifacts": grpc.stream_unary_rpc_method_handler(
            fake.add_artifacts, messages.AddArtifactsRequest.FromString, lambda answer: answer.SerializeToString()
        ),
        "ArtifactStatus": unary(fake.artifact_status, messages.ArtifactStatusesRequest),
        "Interrupt": unary(fake.interrupt, messages.InterruptRequest),
        "ReleaseExecute": unary(fake.release, messages.ReleaseExecuteRequest),
        "ExecutePlan": streaming("ExecutePlan", messages.ExecutePlanRequest),
        "ReattachExecute": streaming("ReattachExecute", messages.ReattachExecuteRequest),
    }
    with ThreadPoolExecutor(8) as pool:
        server = grpc.server(pool)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
        fake.port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield fake
        finally:
            server.stop(None).wait()


def row(data: bytes, response_id: str = "") -> messages.ExecutePlanResponse:
    """A response with rows."""
    return messages.ExecutePlanResponse(
        response_id=response_id, arrow_batch=messages.ExecutePlanResponse.ArrowBatch(row_count=1, data=data)
    )


def progress(response_id: str, *stages: tuple[int, int, int]) -> messages.ExecutePlanResponse:
    """A response without rows; `stages` are ids, and how many of their tasks have ended, of how many."""
    infos = [
        messages.ExecutePlanResponse.ExecutionProgress.StageInfo(stage_id=number, num_completed_tasks=done, num_tasks=of)
        for number, done, of in stages
    ]
    reported = messages.ExecutePlanResponse.ExecutionProgress(stages=infos)
    return messages.ExecutePlanResponse(response_id=response_id, execution_progress=reported if stages else None)


def complete() -> messages.ExecutePlanResponse:
    """The response after the last rows."""
    return messages.ExecutePlanResponse(response_id="last", result_complete=messages.ExecutePlanResponse.ResultComplete())
