"""Writes encrypted WALs as HBase does, for tests: the reverse of walferry.hbase.wal.codecs.encrypted.

The cipher is the library's own CTR mode, cell by cell, as HBase uses Java's.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from tests.unit.hbase.wal.encoder import TRAILER, Cell, Entry, encode_header, encode_varint
from walferry.base.protos.hbase_pb2 import WALHeader, WrappedKey

PACKAGE = "org.apache.hadoop.hbase.regionserver.wal."
MASTER_KEY = b"the cluster's key"[:16]
WAL_KEY = bytes(range(100, 116))
FIRST_IV = b"\xff" * 15 + b"\xfd"  # the counter of its third block carries into the first byte


def ctr(key: bytes, iv: bytes, data: bytes) -> bytes:
    encryptor = Cipher(AES(key), CTR(iv)).encryptor()
    return encryptor.update(data) + encryptor.finalize()


def wrap_key(
    key: bytes = WAL_KEY,
    master: bytes = MASTER_KEY,
    *,
    hash_algorithm: str | None = "MD5",
    algorithm: str = "AES",
    iv: bytes = b"i" * 16,
    digest: bytes | None = None,
) -> bytes:
    """Wrap a key like EncryptionUtil.wrapKey."""
    message = WrappedKey(algorithm=algorithm, length=len(key), data=ctr(master, iv, key), iv=iv)
    if hash_algorithm is not None:
        message.hash_algorithm = hash_algorithm
        message.hash = digest or hashlib.new(hash_algorithm.replace("-", ""), key).digest()
    data = message.SerializeToString()
    return encode_varint(len(data)) + data


def sealed_header(wrapped: bytes | None = None, **fields: object) -> WALHeader:
    settings: dict[str, object] = {
        "has_compression": False,
        "has_tag_compression": False,
        "encryption_key": wrap_key() if wrapped is None else wrapped,
        "writer_cls_name": "SecureProtobufLogWriter",
        "cell_codec_cls_name": PACKAGE + "SecureWALCellCodec",
    }
    return WALHeader(**(settings | fields))  # type: ignore[arg-type]


def plaintext(cell: Cell) -> bytes:
    key_len = 12 + len(cell.row) + len(cell.family) + len(cell.qualifier)
    out = encode_varint(key_len) + encode_varint(len(cell.value)) + encode_varint(len(cell.tags))
    for part in (cell.row, cell.family, cell.qualifier):
        out += encode_varint(len(part)) + part
    return out + struct.pack(">qB", cell.timestamp, cell.type) + cell.value + cell.tags


class Sealer:
    """Encrypts cell by cell, with IVs that count up as HBase's do (little-endian)."""

    def __init__(self, key: bytes = WAL_KEY, iv: bytes = FIRST_IV) -> None:
        self._key = key
        self._iv = iv

    def seal(self, plain: bytes) -> bytes:
        iv, data = self._iv, ctr(self._key, self._iv, plain)
        number = int.from_bytes(iv, "little") + 1 + len(data) // 16
        self._iv = (number % (1 << 128)).to_bytes(16, "little")
        return encode_varint(len(iv)) + iv + encode_varint(len(data)) + data

    def entry(self, entry: Entry) -> bytes:
        key = entry.key.SerializePartialToString()
        return encode_varint(len(key)) + key + b"".join(self.seal(plaintext(cell)) for cell in entry.cells)


def encode_sealed(entries: Iterable[Entry], trailer: bytes = TRAILER, header: WALHeader | None = None) -> bytes:
    sealer = Sealer()
    return encode_header(header or sealed_header()) + b"".join(map(sealer.entry, entries)) + trailer


def sealed_positions(entries: Iterable[Entry]) -> list[int]:
    """The file offsets of each entry and of the last one's end."""
    sealer, offsets = Sealer(), [len(encode_header(sealed_header()))]
    for entry in entries:
        offsets.append(offsets[-1] + len(sealer.entry(entry)))
    return offsets
