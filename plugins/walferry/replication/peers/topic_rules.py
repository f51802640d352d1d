"""Says into which topics of Kafka a cell goes: the rules file of HBase's Kafka proxy, as it is.

    <rules>
      <rule action="drop" table="default:orders" columnFamily="d" qualifier="secret*"/>
      <rule action="route" table="default:orders" columnFamily="d" topic="orders,audit"/>
    </rules>

A rule without a table, family or qualifier is for all of them. A qualifier may have a `*` at its beginning, at its end or at
both; at both, it matches qualifiers that begin or end so. Rules that drop come first. A cell goes into the topics of all other
rules that match, and nowhere if none does. Source: TopicRoutingRules, TopicRule and Rule of hbase-connectors' kafka-proxy. Here
a cell goes into each topic once, also if two rules name it.

Without rules each table has a topic of its own: `default.orders`, `shop.items`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree import ElementTree

from walferry.base.texts import one_line, visible

MAX_RULES_BYTES = 65_536  # HBase keeps them in the peer's configuration
MOST_RULES, MOST_TOPICS = 200, 20  # each cell is compared with each rule, and sent to each of a rule's topics
MAX_SHOWN_CHARS = 200
DEFAULT_NAMESPACE = "default"
TOPIC = re.compile(r"(?!\.\.?$)[a-zA-Z0-9._-]{1,249}")  # org.apache.kafka.common.internals.Topic
_ATTRIBUTES = {"action", "table", "columnFamily", "qualifier", "topic"}


@dataclass(frozen=True)
class Rule:
    """A rule. None stands for all tables, families or qualifiers; without `topics` it drops."""

    topics: tuple[str, ...]
    table: str | None = None  # as WALs name it: without the namespace `default`
    family: bytes | None = None
    qualifier: bytes | None = None
    begins: bool = False  # whether qualifiers match that begin so
    ends: bool = False

    def matches(self, table: str, family: bytes, qualifier: bytes) -> bool:
        """Return whether the rule is for a cell."""
        if self.table not in (None, table) or self.family not in (None, family):
            return False
        if self.qualifier is None or not (self.begins or self.ends):
            return self.qualifier in (None, qualifier)
        begins = self.begins and qualifier.startswith(self.qualifier)
        return begins or (self.ends and qualifier.endswith(self.qualifier))


@dataclass(frozen=True)
class TopicRules:
    """The rules of a peer; None: a topic for each table."""

    rules: tuple[Rule, ...] | None = None

    @classmethod
    def parse(cls, text: str) -> TopicRules:
        """Parse a rules file. An empty text has no rules. Raises ValueError."""
        return cls(_rules(text)) if text.strip() else cls()

    def topics(self, table: str, family: bytes, qualifier: bytes) -> tuple[str, ...]:
        """Return the topics of a cell of a table ("table" or "namespace:table")."""
        if self.rules is None:
            return (topic_of(table),)
        matching = [rule for rule in self.rules if rule.matches(table, family, qualifier)]
        if any(not rule.topics for rule in matching):
            return ()
        return tuple(dict.fromkeys(topic for rule in matching for topic in rule.topics))

    @property
    def named(self) -> tuple[str, ...]:
        """All topics that the rules name."""
        return tuple(dict.fromkeys(topic for rule in self.rules or () for topic in rule.topics))


def topic_of(table: str) -> str:
    """Return the topic of a table if there are no rules."""
    namespace, _, name = table.rpartition(":")
    return f"{namespace or DEFAULT_NAMESPACE}.{name}"


def _rules(text: str) -> tuple[Rule, ...]:
    if len(text.encode()) > MAX_RULES_BYTES:
        raise ValueError(f"the rules have {len(text.encode()):,} bytes, and may have {MAX_RULES_BYTES:,}")
    if "<!DOCTYPE" in text:  # entities could make it large
        raise ValueError("the rules have a DOCTYPE, which no rule needs")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"the rules are not XML: {error}") from None
    rules = tuple(_rule(number, dict(each.attrib)) for number, each in enumerate(root.iter("rule"), 1))
    if (most := max((len(rule.topics) for rule in rules), default=0)) > MOST_TOPICS:
        raise ValueError(f"a rule names {most:,} topics, and may name {MOST_TOPICS}")
    if len(rules) > MOST_RULES:
        raise ValueError(f"there are {len(rules):,} rules, and there may be {MOST_RULES}")
    if not any(rule.topics for rule in rules):
        raise ValueError("no rule names a topic, so nothing would be sent")
    return rules


def _rule(number: int, given: dict[str, str]) -> Rule:
    where = f"rule {number}"
    if odd := sorted(given.keys() - _ATTRIBUTES):
        raise ValueError(f"{where} has {visible(odd[0], MAX_SHOWN_CHARS)}; rules have {', '.join(sorted(_ATTRIBUTES))}")
    drops, topics = given.get("action") == "drop", [name.strip() for name in given.get("topic", "").split(",")]
    if given.get("action") not in ("drop", "route", "routeRules"):
        raise ValueError(f"{where} has the action {one_line(repr(given.get('action')), MAX_SHOWN_CHARS)}, which is drop or route")
    if not drops and (odd := [name for name in topics if not TOPIC.fullmatch(name)]):
        raise ValueError(f"{where} has the topic {one_line(repr(odd[0]), MAX_SHOWN_CHARS)}, which is no name of a topic")
    family, qualifier = given.get("columnFamily"), given.get("qualifier")
    begins, ends = (qualifier or "").endswith("*"), (qualifier or "").startswith("*")
    core = None if qualifier is None else qualifier.removeprefix("*").removesuffix("*").encode()
    return Rule(
        () if drops else tuple(topics), _table(given.get("table")), None if family is None else family.encode(),
        None if core == b"" and (begins or ends) else core, begins, ends,
    )  # fmt: skip


def _table(name: str | None) -> str | None:
    return None if name is None else name.removeprefix(f"{DEFAULT_NAMESPACE}:")
