"""Parses names of servers and WALs as HBase's releases write them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.hbase.names import TABLE, ServerName, in_file_name, in_snapshot_name, parse_wal_name, url_encoded

SERVER = ServerName("rs-1.example.org", 16020, 1700000000000)


def test_a_server_name_is_read_back_from_what_it_is_written_as() -> None:
    assert str(SERVER) == "rs-1.example.org,16020,1700000000000"
    assert ServerName.parse(str(SERVER)) == SERVER
    assert SERVER.encoded() == "rs-1.example.org%2C16020%2C1700000000000"
    assert ServerName.parse_encoded(SERVER.encoded()) == SERVER


@pytest.mark.parametrize("host", ["2001:db8::1", "::1", "fe80::1%eth0", "ip-10-46-221-101.ec2.internal", "10.0.0.7", "a_b"])
def test_hosts_of_all_kinds_are_written_as_java_s_url_encoder_writes_them(host: str) -> None:
    server = ServerName(host, 16020, 17)
    assert server.encoded() == host.replace("%", "%25").replace(":", "%3A") + "%2C16020%2C17"
    assert ServerName.parse_encoded(server.encoded()) == ServerName.parse(str(server)) == server


@pytest.mark.parametrize(
    "text",
    ["", "host", "host,16020", "host,x,1", "a,1,2,3", "a b,1,2", ",1,2", "h,1,2\n", "h?x,1,2", "#,1,2", "h\0,1,2", "\x1b[2J,1,2",
     "h@REALM.example.org,1,2", "h\\,1,2"],
)  # fmt: skip
def test_what_is_no_server_name_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="not a server name") as e:
        ServerName.parse(text)
    assert repr(text) in str(e.value)


@pytest.mark.parametrize(
    ("text", "group", "timestamp", "server", "is_meta"),
    [
        ("h%2C16020%2C1.1795", "h%2C16020%2C1", 1795, ServerName("h", 16020, 1), False),
        (f"{SERVER.encoded()}.17", SERVER.encoded(), 17, SERVER, False),
        (f"{SERVER.encoded()}.meta.18.meta", f"{SERVER.encoded()}.meta", 18, SERVER, True),
        (
            f"{SERVER.encoded()}.{SERVER.encoded()}.regiongroup-0.19",
            f"{SERVER.encoded()}.{SERVER.encoded()}.regiongroup-0",
            19,
            SERVER,
            False,
        ),
        ("2001%3Adb8%3A%3A1%2C16020%2C17.21", "2001%3Adb8%3A%3A1%2C16020%2C17", 21, ServerName("2001:db8::1", 16020, 17), False),
        (
            "%3A%3A1%2C16020%2C17.%3A%3A1%2C16020%2C17.regiongroup-1.22",
            "%3A%3A1%2C16020%2C17.%3A%3A1%2C16020%2C17.regiongroup-1",
            22,
            ServerName("::1", 16020, 17),
            False,
        ),
        ("fe80%3A%3A1%25eth0%2C1%2C2.23", "fe80%3A%3A1%25eth0%2C1%2C2", 23, ServerName("fe80::1%eth0", 1, 2), False),
        ("10.0.0.7%2C16020%2C17.24", "10.0.0.7%2C16020%2C17", 24, ServerName("10.0.0.7", 16020, 17), False),
        # regiongrouping.strategy=namespace, and identity: a group for each namespace, or for each region
        (f"{SERVER.encoded()}.{SERVER.encoded()}.my_ns.25", f"{SERVER.encoded()}.{SERVER.encoded()}.my_ns", 25, SERVER, False),
        (f"{SERVER.encoded()}.{'0a' * 16}.26", f"{SERVER.encoded()}.{'0a' * 16}", 26, SERVER, False),
        (f"{SERVER.encoded()}.default.20", f"{SERVER.encoded()}.default", 20, SERVER, False),
        ("1.1.1.2,60020.1214", "1.1.1.2,60020", 1214, None, False),
    ],
)
def test_a_wal_name_tells_its_group_its_order_and_its_server(
    text: str, group: str, timestamp: int, server: ServerName | None, is_meta: bool
) -> None:
    name = parse_wal_name(text)
    assert (name.text, name.group, name.timestamp, name.server, name.is_meta) == (text, group, timestamp, server, is_meta)
    assert str(name) == text


@pytest.mark.parametrize(
    "text",
    ["", "x", "lock", ".1", "h%2C1%2C1.", "h%2C1%2C1.12x", "a/b.1", "h%2C1%2C1.1.syncrep", ".meta", f"h.{'9' * 20}", "h.-1",
     "h. 1", "h.1_0", "h.1\n", "h.²", "h h.1", "1.meta"],
)  # fmt: skip
def test_what_is_no_wal_name_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="not a WAL's name") as e:
        parse_wal_name(text)
    assert repr(text) in str(e.value)


@pytest.mark.parametrize(
    "text", ["h%2C1%2C1.17?x.5", "h%2C1%2C1.17#x.5", "h%00%2C1%2C1.5", "h%3F%2C1%2C1.5", "h\0%2C1%2C1.5", "\x1b[2J.5"]
)
def test_what_would_mean_something_in_a_url_or_on_a_terminal_is_in_no_wal_s_name(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        parse_wal_name(text)


def test_wals_of_one_group_are_ordered_by_time_and_not_by_text() -> None:
    names = [parse_wal_name(f"h%2C1%2C1.{ts}") for ts in (1000, 999)]
    assert sorted(names, key=lambda n: n.timestamp)[0].text == "h%2C1%2C1.999"


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_peer_s_id_in_a_snapshot_s_name_is_what_hbase_takes_and_no_other_peer_s(one: str, other: str) -> None:
    name = in_snapshot_name(one)
    assert re.fullmatch(r"[A-Za-z0-9_.]*", name)
    assert (name == in_snapshot_name(other)) == (one == other)


@pytest.mark.parametrize(
    ("peer", "encoded"), [("2", "2"), ("peer_1", "peer_1"), ("a.b", "a.2Eb"), ("p:1", "p.3A1"), ("ü", ".C3.BC")]
)
def test_a_peer_s_id_of_letters_and_digits_stays_as_it_is_in_a_snapshot_s_name(peer: str, encoded: str) -> None:
    assert in_snapshot_name(peer) == encoded


@given(st.text(min_size=1, max_size=20))
def test_a_part_of_a_file_s_name_has_nothing_that_a_file_system_refuses(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_.~%-]+", in_file_name(name))


def test_a_text_is_url_encoded_as_java_does_it() -> None:
    assert url_encoded("~a*b c/d,é") == "%7Ea*b+c%2Fd%2C%C3%A9"


def test_a_name_that_no_file_can_have_is_none_of_a_wal() -> None:
    assert parse_wal_name("x" * 200 + ".5").timestamp == 5
    with pytest.raises(ValueError, match="1,000,002 characters is not a WAL's name") as refused:
        parse_wal_name("x" * 1_000_000 + ".5")
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("name", ["t", "ns:t", "größe:表.x-1", "हिन्दी:हिंदी", "_x", "9"])
def test_tables_of_all_languages_are_tables(name: str) -> None:
    assert TABLE.fullmatch(name)


@pytest.mark.parametrize("name", ["", ".t", "-t", "n s:t", "a:b:c", "t/x", "t#", "t?", "a.b:t"])
def test_other_names_are_no_tables(name: str) -> None:
    assert not TABLE.fullmatch(name)
