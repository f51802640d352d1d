"""The rules file of HBase's Kafka proxy says into which topics a cell goes, as the proxy reads it."""

from __future__ import annotations

import pytest

from walferry.replication.peers.topic_rules import MAX_RULES_BYTES, TopicRules


def rules(*lines: str) -> TopicRules:
    return TopicRules.parse(f"<rules>{''.join(lines)}</rules>")


def test_without_rules_each_table_has_its_own_topic() -> None:
    for text in ("", " \n"):
        found = TopicRules.parse(text)
        assert found.topics("orders", b"f", b"q") == ("default.orders",)
        assert found.topics("shop:items", b"f", b"q") == ("shop.items",)
        assert not found.named


def test_a_cell_goes_into_the_topics_of_all_rules_that_match_once_each() -> None:
    found = rules(
        '<rule action="route" table="default:t" topic="a, b"/>',
        '<rule action="route" table="t" columnFamily="f" topic="b,c"/>',
        '<rule action="route" columnFamily="g" topic="d"/>',
    )
    assert found.topics("t", b"f", b"q") == ("a", "b", "c")
    assert found.topics("t", b"g", b"q") == ("a", "b", "d")
    assert found.topics("ns:t", b"f", b"q") == ()
    assert found.named == ("a", "b", "c", "d")


def test_what_a_rule_drops_goes_nowhere() -> None:
    found = rules('<rule action="route" topic="a"/>', '<rule action="drop" table="ns:t" qualifier="secret*"/>')
    assert found.topics("ns:t", b"f", b"secret1") == ()
    assert found.topics("ns:t", b"f", b"open") == ("a",)
    assert found.topics("t", b"f", b"secret1") == ("a",)


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("q", [b"q"], [b"", b"qq"]),
        ("q*", [b"q", b"qx"], [b"xq", b""]),
        ("*q", [b"q", b"xq"], [b"qx", b""]),
        ("*q*", [b"q", b"xq", b"qx"], [b"xqx", b""]),  # the proxy's code takes either end, though its comment says "contain"
        ("*", [b"", b"q"], []),
        ("**", [b"", b"q"], []),
        ("", [b""], [b"q"]),
    ],
)
def test_a_qualifier_may_have_a_wildcard_at_either_end(pattern: str, matches: list[bytes], others: list[bytes]) -> None:
    found = rules(f'<rule action="route" qualifier="{pattern}" topic="a"/>')
    assert all(found.topics("t", b"f", qualifier) == ("a",) for qualifier in matches)
    assert all(found.topics("t", b"f", qualifier) == () for qualifier in others)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<rules><rule", "the rules are not XML"),
        ("<rules/>", "no rule names a topic"),
        ('<rules><rule action="drop" table="t"/></rules>', "no rule names a topic"),
        ('<rules><rule action="route" table="t"/></rules>', "rule 1 has the topic ''"),
        ('<rules><rule action="route" topic="a b"/></rules>', "rule 1 has the topic 'a b'"),
        ('<rules><rule action="route" topic=".."/></rules>', "rule 1 has the topic"),
        ('<rules><rule action="send" topic="a"/></rules>', "rule 1 has the action 'send'"),
        ('<rules><rule action="route" topic="a" family="f"/></rules>', "rule 1 has family"),
        ('<!DOCTYPE r [<!ENTITY a "aaaa">]><rules><rule action="route" topic="&a;"/></rules>', "have a DOCTYPE"),
        (f'<rules><rule action="route" topic="{",".join("ab" * 30)}"/></rules>', "names 60 topics, and may name 20"),
        ("<rules>" + '<rule action="route" topic="a"/>' * 201 + "</rules>", "there are 201 rules"),
        (f"<rules>{' ' * MAX_RULES_BYTES}</rules>", "may have 65,536"),
    ],
)
def test_rules_that_make_no_sense_are_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        TopicRules.parse(text)
