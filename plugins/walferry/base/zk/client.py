"""Provides a ZooKeeper client whose calls always end.

kazoo's synchronous calls have no time limit: while a client tries to reconnect, a call may hang until the ensemble is back. Here
a call waits at most `call_timeout` seconds for its answer, and reads are repeated after a lost connection.
"""

import logging
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    MarshallingError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    WriterNotClosedException,
)
from kazoo.handlers.threading import AsyncResult, KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.states import WatchedEvent, ZnodeStat
from kazoo.retry import KazooRetry, RetryFailedError

from walferry.base.hosts import unreachable
from walferry.base.security.login import UNSECURED, Login
from walferry.base.zk.errors import AnswerTooLong, ConnectError
from walferry.base.zk.secured import SecuredClient, bound_answers, drop_unreadable

log = logging.getLogger(__name__)

# kazoo warns about once a second while an ensemble is away; the caller reports it once.
_kazoo_log = logging.getLogger("walferry.base.zk.kazoo")
_kazoo_log.setLevel(logging.ERROR)

SESSION_TIMEOUT_SECONDS = 20.0
CONNECT_TIMEOUT_SECONDS = 30.0
TCP_TIMEOUT_SECONDS = 4.0  # for each server, before the next one is tried
FIRST_LOOK_SECONDS = 2.0  # a healthy ensemble accepts a connection within this time
UNREACHABLE_SECONDS = 5.0  # a server that is starting may refuse connections for this long
LAST_LOOK_SECONDS = 1.0  # for each server, to distinguish an unreachable one from a silent one
CALL_TIMEOUT_SECONDS = 30.0
CLOSE_SECONDS = 2.0  # an ensemble's time to acknowledge the end of a session
PIPELINED_READS = 256
MAX_ANSWER_BYTES = 64 << 20  # a znode has at most 1 MiB by default; a list of children may be longer (jute.maxbuffer)

# The request may have been carried out, or may still be when this session reconnects.
OUTCOME_UNKNOWN = (ConnectionLoss, OperationTimeoutError, KazooTimeoutError)
NOT_AS_READ = (BadVersionError, NodeExistsError, NoNodeError)  # another client has changed a znode since it was read

Watch = Callable[[WatchedEvent], None]
P = ParamSpec("P")
T = TypeVar("T")


class _BoundedResult(AsyncResult):  # type: ignore[misc]  # kazoo has no types
    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        return super().get(block, self._handler.call_timeout if timeout is None else timeout)


@dataclass(frozen=True)
class Whose:
    """The name of an ensemble in messages, and the settings to check if it is away or belongs to another cluster."""

    name: str
    check: str
    check_parent: str


SOURCE = Whose(
    "the source cluster",
    "host and port of its connection (hbase_source, unless another is given)",
    "quorum and znode_parent (zookeeper.znode.parent)",
)


class _BoundedHandler(SequentialThreadingHandler):  # type: ignore[misc]
    def __init__(self, call_timeout: float, whose: Whose) -> None:
        super().__init__()
        self.call_timeout = call_timeout
        self.whose = whose
        self._socket: Any = None
        self._hung_up = False
        self.dropped = False  # whether a server has ended a connection before the session began
        self.no_zookeeper = False  # whether a supposed server has answered in another protocol
        self.encrypted: Callable[[socket.socket, str, tuple[str, int]], socket.socket] = lambda sock, host, address: sock
        self.unreached: Callable[[tuple[str, int], str], None] = lambda server, address: None

    def async_result(self) -> _BoundedResult:
        return _BoundedResult(self)

    def create_connection(self, address: tuple[str, int], hostname: str, timeout: float, **_: Any) -> Any:
        if self._hung_up:
            raise ConnectionError("this client is being closed")
        try:
            self._socket = super().create_connection(address, timeout=min(timeout, TCP_TIMEOUT_SECONDS))
        except Exception:
            self.unreached((hostname, address[1]), address[0])
            raise
        self._socket.settimeout(TCP_TIMEOUT_SECONDS)
        self._socket = self.encrypted(self._socket, hostname, address)
        return self._socket

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _: Sequence[Any], timeout: float
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait as select.select does, several times for each request. kazoo's own method makes and closes an epoll each time.

        A socket whose TLS layer holds decrypted bytes is readable although nothing more has arrived.
        """
        held = [each for each in readers if isinstance(each, ssl.SSLSocket) and each.pending()]
        waiting = select.poll()
        for sockets, event in ((readers, select.POLLIN), (writers, select.POLLOUT)):
            for each in sockets:
                waiting.register(each, event)
        ready = {descriptor for descriptor, _ in waiting.poll(0 if held else timeout * 1000)}
        readable = [each for each in readers if each in held or each.fileno() in ready]
        return readable, [each for each in writers if each.fileno() in ready], []

    def hang_up(self) -> None:
        """Close the connection and open no other, so that no call waits for the server any more."""
        self._hung_up = True
        if self._socket is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # SSLSocket.shutdown would forget that the socket encrypts


def connect(
    quorum: str,
    timeout: float = CONNECT_TIMEOUT_SECONDS,
    session_timeout: float = SESSION_TIMEOUT_SECONDS,
    call_timeout: float = CALL_TIMEOUT_SECONDS,
    whose: Whose = SOURCE,
    most_bytes: int = MAX_ANSWER_BYTES,
    login: Login = UNSECURED,
) -> SecuredClient:
    """Start a client of the ensemble `quorum` ("host:port,host:port"); all times in seconds. `disconnect` ends it.

    `call_timeout` limits each call, and `whose` names the ensemble in messages. An answer of more than `most_bytes` is dropped:
    the request fails with MarshallingError. A server that announces a far longer answer is disconnected.

    Raises ConnectError if no server answers within `timeout`, or if none can be reached within UNREACHABLE_SECONDS; LoginFailed
    or LoginRefused, which are ConnectErrors, if the login fails.
    """
    advice = f"It is the ensemble of {whose.name}: check {whose.check} and that it is up"
    try:
        zk = SecuredClient(
            login,
            whose.name,
            hosts=quorum,
            timeout=session_timeout,
            handler=_BoundedHandler(call_timeout, whose),
            logger=_kazoo_log,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=1.0),
            command_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=2.0, deadline=call_timeout),
        )
    except ValueError as error:  # for a malformed host or port
        raise ConnectError(f"no ZooKeeper server of {quorum} can be reached: {error}. {advice}") from error
    bound_answers(zk, most_bytes)
    drop_unreadable(zk)
    why = _start(zk, timeout)
    if not zk.connected:
        refusal = zk.refusal  # before this client itself closes the connection
        disconnect(zk)
        if refusal is not None:
            raise refusal
        why = why or unreachable(zk.hosts, LAST_LOOK_SECONDS)
        what = f"can be reached: {why}" if why else f"answered within {timeout:.3g} s"
        raise ConnectError(f"no ZooKeeper server of {quorum} {what}. {advice}")
    return zk


def _start(zk: SecuredClient, timeout: float) -> str | None:
    """Connect as KazooClient.start does, but give up early if no server is reachable, or if servers refuse the login.

    KazooClient.start tries an unknown host for the whole `timeout`. Returns why no server is reachable, if that is known; the
    caller checks whether the client is connected.
    """
    began = time.monotonic()
    zk.start_async()
    zk.settled.wait(min(timeout, FIRST_LOOK_SECONDS))
    if not zk.settled.is_set() and (zk.handler.dropped or zk.handler.no_zookeeper) and zk.wants_tls(LAST_LOOK_SECONDS):
        return None
    why, reachable = None, timeout <= UNREACHABLE_SECONDS
    while not zk.settled.is_set() and (left := began + timeout - time.monotonic()) > 0:
        answered = zk.handler.no_zookeeper or zk.refusal
        if not reachable and not answered:
            why = unreachable(zk.hosts, TCP_TIMEOUT_SECONDS)
            reachable = why is None
        # Until then, another server of the ensemble may be reachable.
        if (why or answered) and time.monotonic() - began >= UNREACHABLE_SECONDS:
            break
        zk.settled.wait(min(1.0, left))
    return "what listens there answers, but not as a ZooKeeper server does" if zk.handler.no_zookeeper else why


def disconnect(zk: KazooClient) -> None:
    """End the session and its threads, even if the ensemble is away or silent. kazoo would wait for the session's timeout."""
    hang_up = threading.Timer(CLOSE_SECONDS if zk.connected else 0, zk.handler.hang_up)
    hang_up.start()
    try:
        zk.stop()
        zk.close()
    except WriterNotClosedException:
        log.warning("a connection to ZooKeeper at %s hangs; its thread ends with the connection", hosts(zk))
    finally:
        hang_up.cancel()
        hang_up.join()


@contextmanager
def connected(
    quorum: str, timeout: float = CONNECT_TIMEOUT_SECONDS, whose: Whose = SOURCE, login: Login = UNSECURED,
    call_timeout: float = CALL_TIMEOUT_SECONDS,
) -> Iterator[SecuredClient]:  # fmt: skip
    """Connect for the length of a block."""
    zk = connect(quorum, timeout, call_timeout=call_timeout, whose=whose, login=login)
    try:
        yield zk
    finally:
        disconnect(zk)


def retried(zk: KazooClient, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Make a repeatable call, and repeat it if the connection is lost. Raises ConnectError in the end."""
    try:
        result: T = zk.retry(call, *args, **kwargs)
    except AuthFailedError as error:
        raise refusal_of_login(zk) or error from error
    except (*OUTCOME_UNKNOWN, RetryFailedError, ConnectionClosedError) as error:
        raise unanswered(zk, f"does not answer ({type(error).__name__})") from error
    return result


def unanswered(zk: KazooClient, how: str) -> ConnectError:
    """Return the error for an ensemble that does not answer: the refusal of the client's login, if that is the reason."""
    return refusal_of_login(zk) or ConnectError(f"ZooKeeper of {whose(zk).name} at {hosts(zk)} {how}")


def refusal_of_login(zk: KazooClient) -> ConnectError | None:
    """Return why the client has no session, if its login is the reason."""
    return zk.refusal if isinstance(zk, SecuredClient) else None


def hosts(zk: KazooClient) -> str:
    """List the ensemble's servers as in the quorum string."""
    return ",".join(f"{host}:{port}" for host, port in zk.hosts)


def whose(zk: KazooClient) -> Whose:
    """Return the name of the client's ensemble in messages, which `connect` got."""
    return getattr(zk.handler, "whose", SOURCE)


class ZNode(NamedTuple):
    """A znode's value and stat, read together."""

    value: bytes
    stat: ZnodeStat


def read(zk: KazooClient, path: str) -> ZNode | None:
    """Read the znode; None if it does not exist."""
    try:
        return ZNode(*retried(zk, zk.get, path))
    except NoNodeError:
        return None


def has_znode(zk: KazooClient, path: str, watch: Watch | None = None) -> bool:
    """Return whether the znode exists. `watch` is called once, when it is created, changed or deleted."""
    return retried(zk, zk.exists, path, watch=watch) is not None


def just_written(zk: KazooClient, path: str) -> ZNode:
    """Create or set an empty znode of Walferry's own. Its modification time is the time on ZooKeeper's clock."""
    retried(zk, zk.ensure_path, path)
    return ZNode(b"", retried(zk, zk.set, path, b""))


def children(zk: KazooClient, path: str, watch: Watch | None = None) -> list[str] | None:
    """List the names of the znode's children, sorted; None if the znode does not exist.

    `watch` is called once, in a thread of the client, when the children change or the connection is lost. Raises AnswerTooLong.
    """
    try:
        return sorted(retried(zk, zk.get_children, path, watch=watch))
    except NoNodeError:
        return None
    except MarshallingError as error:
        raise AnswerTooLong(path, zk.handler.most_bytes) from error


def children_all(zk: KazooClient, paths: Sequence[str], watch: Watch | None = None) -> list[list[str] | None]:
    """List the children of each path as `children` does, in the order of the paths, with pipelined requests."""
    found = children_each(zk, paths, watch)
    for names in found:
        if isinstance(names, AnswerTooLong):
            raise names
    return cast(list[list[str] | None], found)


def children_each(zk: KazooClient, paths: Sequence[str], watch: Watch | None = None) -> list[list[str] | AnswerTooLong | None]:
    """Do the same as `children_all`, but with an error in the place of each list that is too long."""

    def names(path: str, pending: Any) -> list[str] | AnswerTooLong | None:
        try:
            found = _or_none(path, pending)
        except MarshallingError:
            return AnswerTooLong(path, zk.handler.most_bytes)
        return found and sorted(found)

    return _pipelined(zk, paths, lambda path: zk.get_children_async(path, watch=watch), names)


def _or_none(_: str, pending: Any) -> Any:
    try:
        return pending.get()
    except NoNodeError:
        return None


def read_all(zk: KazooClient, paths: Sequence[str]) -> list[ZNode | None]:
    """Read the znodes in the order of the paths, with pipelined requests. A missing znode gives None."""
    return [None if found is None else ZNode(*found) for found in _pipelined(zk, paths, zk.get_async)]


def read_children(zk: KazooClient, path: str) -> dict[str, ZNode]:
    """Read the znode's children by name; none if it does not exist. Raises AnswerTooLong."""
    names = children(zk, path) or []
    found = read_all(zk, [f"{path}/{name}" for name in names])
    return {name: znode for name, znode in zip(names, found, strict=True) if znode is not None}


def stat_all(zk: KazooClient, paths: Sequence[str]) -> list[ZnodeStat | None]:
    """Return the znodes' stats in the order of the paths, without their values. A missing znode gives None."""
    return _pipelined(zk, paths, zk.exists_async)


def delete_unused(zk: KazooClient, path: str, *, recursive: bool = False) -> bool:
    """Delete a znode. Returns False if it is gone, deleted by another client or an earlier try, or if it has got children."""
    try:
        retried(zk, zk.delete, path, recursive=recursive)
    except (NoNodeError, NotEmptyError):
        return False
    return True


def _pipelined(
    zk: KazooClient, paths: Sequence[str], request: Callable[[str], Any], answer: Callable[[str, Any], Any] = _or_none
) -> list[Any]:
    """Send the requests for the paths and collect the answers. A missing znode gives None."""

    def some(paths: Sequence[str]) -> list[Any]:
        return [answer(*pending) for pending in [(path, request(path)) for path in paths]]

    found: list[Any] = []
    for start in range(0, len(paths), PIPELINED_READS):
        found += retried(zk, some, paths[start : start + PIPELINED_READS])
    return found


@dataclass(frozen=True)
class Refusal:
    """The operation, counted from 0, that made ZooKeeper refuse a whole multi, and the reason."""

    operation: int
    error: Exception


def commit(transaction: TransactionRequest) -> Refusal | None:
    """Send a multi once. Returns None if it was carried out. Raises one of OUTCOME_UNKNOWN if that is not known."""
    return refusal_of(transaction.commit())


def expected(refusal: Refusal | None, *errors: type[Exception]) -> Refusal | None:
    """Return the refusal (None if the multi was carried out). Its error must be one of these; any other error is raised."""
    if refusal is not None and not isinstance(refusal.error, errors):
        raise refusal.error
    return refusal


def refusal_of(results: Sequence[Any]) -> Refusal | None:
    """Return from a multi's results why it was refused; None if it was carried out."""
    for i, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(result, (RolledBackError, RuntimeInconsistency)):
            return Refusal(i, result)
    return None
