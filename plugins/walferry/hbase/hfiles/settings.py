"""Derives the settings for writing a file from the peer cluster's family, as far as files can follow them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from walferry.hbase.hfiles.blocks import Checksum, Compression
from walferry.hbase.hfiles.bloom import Bloom
from walferry.hbase.hfiles.encodings import Encoding
from walferry.hbase.hfiles.errors import BadFamily
from walferry.hbase.wal.cells import MAX_ROW

MAX_BLOCK_BYTES: Final = 64 << 20
PREFIX_LENGTH = "RowPrefixBloomFilter.prefix_length"


@dataclass(frozen=True)
class FileSettings:
    """The settings for writing a file. The defaults are HBase's."""

    block_bytes: int = 64 << 10  # the uncompressed size at which a block ends
    compression: Compression = Compression.NONE
    encoding: Encoding = Encoding.NONE
    bloom: Bloom = Bloom.ROW
    prefix_len: int = 0  # bytes of a row, for ROWPREFIX_FIXED_LENGTH
    checksum: Checksum = Checksum.CRC32C


def settings_of(family: str, attributes: Mapping[str, str]) -> tuple[FileSettings, tuple[str, ...]]:
    """Return the settings for a family with these attributes and configuration, and the attributes that its files ignore.

    Such files are sound, and HBase's next compaction rewrites them with all attributes. Raises BadFamily.
    """
    compression, other_codec = _chosen(Compression, attributes, "COMPRESSION", Compression.NONE)
    encoding, other_encoding = _chosen(Encoding, attributes, "DATA_BLOCK_ENCODING", Encoding.NONE)
    name = attributes.get("BLOOMFILTER", Bloom.ROW.name)
    if name not in Bloom.__members__:
        raise BadFamily(family, "BLOOMFILTER", name, f"one of {', '.join(Bloom.__members__)}")
    bloom = Bloom[name]
    settings = FileSettings(
        block_bytes=_number(family, attributes, "BLOCKSIZE", FileSettings.block_bytes, MAX_BLOCK_BYTES),
        compression=compression,
        encoding=encoding,
        bloom=bloom,
        prefix_len=_number(family, attributes, PREFIX_LENGTH, 0, MAX_ROW) if bloom is Bloom.ROWPREFIX_FIXED_LENGTH else 0,
    )
    return settings, (*other_codec, *other_encoding)


E_ = TypeVar("E_", Compression, Encoding)


def _chosen(kind: type[E_], attributes: Mapping[str, str], name: str, default: E_) -> tuple[E_, tuple[str, ...]]:
    """Return an attribute's value, or the default and "NAME=value" if files cannot be written with that value."""
    value = attributes.get(name, default.name)
    return (kind[value], ()) if value in kind.__members__ else (default, (f"{name}={value}",))


def _number(family: str, attributes: Mapping[str, str], name: str, default: int, most: int) -> int:
    """Return an attribute's number. Raises BadFamily unless it is between 1 and `most`."""
    value = attributes.get(name, str(default))
    number = int(value) if value.isdecimal() and len(value) < 12 else 0
    if not 1 <= number <= most:
        raise BadFamily(family, name, value, f"a number from 1 to {most}")
    return number
