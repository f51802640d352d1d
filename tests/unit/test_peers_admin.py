import pytest

from walferry.__main__ import main
from walferry.peers_admin import parse_table_cfs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t", ("t", ())),
        ("ns:t", ("ns:t", ())),
        ("t=f", ("t", ("f",))),
        ("ns:a.b-c=f,g", ("ns:a.b-c", ("f", "g"))),
    ],
)
def test_a_table_with_its_families_is_written_namespace_table_families(text, expected):
    assert parse_table_cfs(text) == expected


@pytest.mark.parametrize("text", ["", "=f", "t=", "t=f,", "a:b:c", "-t", "a/b", "t t"])
def test_what_is_no_table_with_families_is_refused(text):
    with pytest.raises(ValueError, match=r"is not \[namespace:\]table"):
        parse_table_cfs(text)


def test_a_source_that_is_no_connection_is_refused_before_anything_connects(capsys):
    assert main(["--source", "{}", "peers", "list"]) == 1
    assert "host is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["peers"], ["peers", "create", "p1"], ["peers", "hand-back", "p1"], ["peers", "enable", "p1"]]
)
def test_half_a_command_is_a_usage_error(arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
