import pytest

from walferry.__main__ import main


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


def test_a_table_that_is_none_is_a_usage_error_that_says_how_to_write_it(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["peers", "create", "p1", "--cluster-key", "zk:2181:/hbase", "--table-cfs", "t="])
    assert caught.value.code == 2
    assert "'t=' is not [namespace:]table[=family,family], table:family,family, or what HBase's shell" in capsys.readouterr().err
