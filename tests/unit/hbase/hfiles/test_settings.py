"""A family's attributes say how its files are written, as far as they can be followed."""

import pytest

from walferry.hbase.hfiles.blocks import Compression
from walferry.hbase.hfiles.bloom import Bloom
from walferry.hbase.hfiles.encodings import Encoding
from walferry.hbase.hfiles.errors import BadFamily
from walferry.hbase.hfiles.settings import FileSettings, settings_of


def test_a_family_without_attributes_has_those_of_hbase() -> None:
    assert settings_of("f", {}) == (FileSettings(64 << 10, Compression.NONE, Encoding.NONE, Bloom.ROW), ())


def test_a_familys_attributes_are_followed() -> None:
    attributes = {
        "COMPRESSION": "SNAPPY",
        "DATA_BLOCK_ENCODING": "FAST_DIFF",
        "BLOOMFILTER": "ROWPREFIX_FIXED_LENGTH",
        "RowPrefixBloomFilter.prefix_length": "10",
        "BLOCKSIZE": "8192",
        "VERSIONS": "3",
    }
    expected = FileSettings(8192, Compression.SNAPPY, Encoding.FAST_DIFF, Bloom.ROWPREFIX_FIXED_LENGTH, 10)
    assert settings_of("f", attributes) == (expected, ())


@pytest.mark.parametrize("codec", ["ZSTD", "LZO", "BZIP2", "LZMA", "BROTLI", "something new"])
def test_codecs_that_cannot_be_written_are_left_out_by_name(codec: str) -> None:
    settings, left_out = settings_of("f", {"COMPRESSION": codec, "DATA_BLOCK_ENCODING": "PREFIX_TREE"})
    assert (settings.compression, settings.encoding) == (Compression.NONE, Encoding.NONE)
    assert left_out == (f"COMPRESSION={codec}", "DATA_BLOCK_ENCODING=PREFIX_TREE")


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"BLOCKSIZE": "0"}, "BLOCKSIZE is '0', but a number from 1"),
        ({"BLOCKSIZE": "-1"}, "BLOCKSIZE is '-1'"),
        ({"BLOCKSIZE": "64 KB"}, "BLOCKSIZE is '64 KB'"),
        ({"BLOCKSIZE": "99999999999999999999"}, "BLOCKSIZE"),
        ({"BLOOMFILTER": "COLUMN"}, "BLOOMFILTER is 'COLUMN', but one of NONE, ROW"),
        ({"BLOOMFILTER": "ROWPREFIX_FIXED_LENGTH"}, "RowPrefixBloomFilter.prefix_length is '0'"),
        ({"BLOOMFILTER": "ROWPREFIX_FIXED_LENGTH", "RowPrefixBloomFilter.prefix_length": "40000"}, "to 32767"),
    ],
)
def test_attributes_that_hbase_itself_could_not_use_are_an_error_that_names_them(attributes, problem: str) -> None:
    with pytest.raises(BadFamily, match=f"family f of the peer cluster: .*{problem}"):
        settings_of("f", attributes)
