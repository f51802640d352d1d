"""The settings of Kafka's clients, and the errors that people see.

Settings are librdkafka's. A file of the source's connection (kafka_clients) adds to them, for brokers that want a login:

    # comment
    security.protocol=SASL_SSL
    sasl.password=…

The connection names the file by the brokers that it is for. So whoever may write a peer's configuration can lead our edits
elsewhere, but not our passwords.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from walferry.base.errors import WalferryError
from walferry.base.texts import one_line
from walferry.replication.peers.reading import Peer
from walferry.replication.peers.topic_rules import topic_of
from walferry.replication.source.cluster import SourceCluster, SourceError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException

MAX_SHOWN_CHARS = 300
MAX_FILE_BYTES = 65_536
CALL_SECONDS = 10.0  # for one question to the brokers
# What Walferry's promises stand on, and what loads code. A file may not change that.
_OURS = (
    "bootstrap.servers", "metadata.broker.list", "transactional.id", "enable.idempotence", "acks", "request.required.acks",
    "allow.auto.create.topics", "partitioner", "isolation.level", "group.id", "auto.offset.reset", "enable.auto.commit",
    "enable.partition.eof", "plugin.library.paths", "ssl.engine.location", "transaction.timeout.ms", "message.timeout.ms",
    "delivery.timeout.ms", "retries", "message.send.max.retries", "max.in.flight", "max.in.flight.requests.per.connection",
)  # fmt: skip

log = logging.getLogger(__name__)


class KafkaFailed(WalferryError):
    """Kafka does not answer, or refuses records for now. `answered`: whether it has said so itself."""

    def __init__(self, problem: str, advice: str = "The next try may succeed", *, answered: bool = False) -> None:
        super().__init__(problem, advice)
        self.answered = answered


class KafkaRefused(WalferryError):
    """Kafka refuses records, a login or a topic, and will do so until someone changes something there."""

    retry_helps = False


class KafkaFenced(WalferryError):
    """Another producer of the WAL group has begun, or Kafka has given this one up: it can send nothing more."""


@dataclass
class Heard:
    """What the clients said last about their connections: a failed login or a certificate is in no other error."""

    text: str = ""

    def __call__(self, error: KafkaError) -> None:
        self.text = shown(error)


def settings_of(peer: Peer, source: SourceCluster, heard: Heard) -> dict[str, Any]:
    """Return the settings of all clients of a peer's brokers, which tell `heard` of errors. Raises SourceError."""
    servers = peer.kafka or ""
    path = source.kafka_clients.get(servers)
    if path is None and source.kafka_clients:
        heard.text = f"kafka_clients of the source's connection has no file for {servers}"
    return {
        **(_read(path) if path else {}),
        "bootstrap.servers": servers,
        "allow.auto.create.topics": False,  # a broker would make the topic of positions in a form that loses them
        "error_cb": heard,
        "client.id": "walferry",
        "logger": log,
        "log.connection.close": False,
    }


def _read(path: str) -> dict[str, str]:
    """Return the settings in a file. Raises SourceError, which shows nothing of the file but names of settings."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
        lines = text.decode().splitlines()
    except (OSError, ValueError) as error:
        raise SourceError(f"kafka_clients: {path} cannot be read: {type(error).__name__}. It must be there on each machine that "
                          "ships, and on Airflow's") from None  # fmt: skip
    if len(text) > MAX_FILE_BYTES:
        raise SourceError(f"kafka_clients: {path} has more than {MAX_FILE_BYTES:,} bytes")
    found = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith(("#", "!")):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals:
            raise SourceError(f"kafka_clients: line {number} of {path} is not of the form name=value")
        if name in _OURS:
            raise SourceError(f"kafka_clients: line {number} of {path} sets {name}, which Walferry sets itself: leave it out")
        found[name] = value
    return found


def no_client(error: ImportError) -> KafkaRefused:
    """Return the error for a machine without Kafka's client."""
    return KafkaRefused(f"Kafka's client is not installed here ({one_line(str(error), MAX_SHOWN_CHARS)})",
                        "Install walferry[kafka] where Spark's tasks, Airflow's and the command run")  # fmt: skip


def error_in(error: KafkaException) -> KafkaError:
    """Return librdkafka's error in an exception."""
    found: KafkaError = error.args[0]
    return found


def shown(error: object) -> str:
    """Return an error of librdkafka as one line."""
    text = error.str() if hasattr(error, "str") else str(error)
    return one_line(text, MAX_SHOWN_CHARS)


def is_lasting(error: KafkaError) -> bool:
    """Return whether Kafka will give the same answer until someone changes a topic, a right or a cell."""
    from confluent_kafka import KafkaError as Codes

    return error.code() in {
        Codes.UNKNOWN_TOPIC_OR_PART, Codes._UNKNOWN_TOPIC, Codes._UNKNOWN_PARTITION, Codes.TOPIC_AUTHORIZATION_FAILED,
        Codes.GROUP_AUTHORIZATION_FAILED, Codes.CLUSTER_AUTHORIZATION_FAILED, Codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Codes.MSG_SIZE_TOO_LARGE, Codes.RECORD_LIST_TOO_LARGE, Codes.INVALID_RECORD, Codes.TOPIC_EXCEPTION, Codes._AUTHENTICATION,
        Codes.SASL_AUTHENTICATION_FAILED, Codes.UNSUPPORTED_VERSION, Codes._UNSUPPORTED_FEATURE, Codes.POLICY_VIOLATION,
        Codes.INVALID_TRANSACTION_TIMEOUT, Codes._INVALID_ARG, Codes._SSL,
    }  # fmt: skip


def failure(error: KafkaException, what: str, heard: Heard) -> KafkaFailed | KafkaRefused:
    """Return an exception of librdkafka as an error for people."""
    found = error_in(error)
    said = f"; the client has said last: {heard.text}" if heard.text and found.code() < 0 else ""
    text = f"{what}: {shown(found)} ({found.name()}){said}"
    if is_lasting(found):
        return KafkaRefused(text, "Mend that there; until then the edits wait")
    return KafkaFailed(text, answered=found.code() > 0)


def answers(peer: Peer, source: SourceCluster, seconds: float = CALL_SECONDS) -> str:
    """Return that a peer's brokers answer, and have its topics. Raises KafkaFailed, KafkaRefused, SourceError, PeerError."""
    try:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
    except ImportError as error:
        raise no_client(error) from error
    rules, heard = peer.kafka_rules, Heard()
    try:
        admin = AdminClient(settings_of(peer, source, heard))
        try:
            found = admin.list_topics(timeout=seconds)
        finally:
            admin.poll(0)  # tells `heard`
    except KafkaException as error:
        raise failure(error, f"{peer.target} does not answer", heard) from error
    wanted = rules.named or tuple(topic_of(table) for table in sorted(peer.table_cfs or {}))
    if missing := [topic for topic in wanted if topic not in found.topics]:
        more = f", nor {len(missing) - 1} others" if len(missing) > 1 else ""
        raise KafkaRefused(f"{peer.target} has no topic {missing[0]}{more}, to which edits of peer {peer.id} go", "Create it")
    return f"{peer.target} answers, with {len(found.brokers)} brokers"
