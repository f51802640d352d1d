"""Names of servers and WALs, as HBase's releases write them."""

import pytest

from walferry.wal.names import ServerName, parse_wal_name

SERVER = ServerName("rs-1.example.org", 16020, 1700000000000)


def test_a_server_name_is_read_back_from_what_it_is_written_as() -> None:
    assert str(SERVER) == "rs-1.example.org,16020,1700000000000"
    assert ServerName.parse(str(SERVER)) == SERVER
    assert SERVER.encoded() == "rs-1.example.org%2C16020%2C1700000000000"
    assert ServerName.parse_encoded(SERVER.encoded()) == SERVER


@pytest.mark.parametrize("text", ["", "host", "host,16020", "host,x,1", "a,1,2,3", "a b,1,2", ",1,2", "h,1,2\n"])
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


@pytest.mark.parametrize("text", ["", "x", "lock", ".1", "h%2C1%2C1.", "h%2C1%2C1.12x", "a/b.1", "h%2C1%2C1.1.syncrep", ".meta"])
def test_what_is_no_wal_name_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="not a WAL's name") as e:
        parse_wal_name(text)
    assert repr(text) in str(e.value)


def test_wals_of_one_group_are_ordered_by_time_and_not_by_text() -> None:
    names = [parse_wal_name(f"h%2C1%2C1.{ts}") for ts in (1000, 999)]
    assert sorted(names, key=lambda n: n.timestamp)[0].text == "h%2C1%2C1.999"
