"""Puts hostile bytes through every kernel, in buffers without a spare byte. To be run with NUMBA_BOUNDSCHECK=1.

Ends with IndexError if a kernel reaches outside of its buffer.
"""

import random
import struct

import numpy as np

from tests.unit.hbase.wal.compressing import Encoder, compress
from tests.unit.hbase.wal.encoder import encode_header, encode_varint
from tests.unit.hbase.wal.fuzzing import fuzz
from tests.unit.hbase.wal.indexed import PhoenixEncoder, encode
from tests.unit.hbase.wal.memory_file import MemoryFile
from tests.unit.hbase.wal.samples import SAMPLE, SAMPLE_BYTES, SAMPLE_STARTS
from tests.unit.hbase.wal.sealed import WAL_KEY, Sealer, plaintext
from tests.unit.hbase.wal.small_buffers import small_buffers
from tests.unit.hbase.wal.test_encrypted import SEALED, STARTS
from tests.unit.hbase.wal.test_phoenix import MIXED
from walferry.hbase.wal.arrow import decode_wal_batch
from walferry.hbase.wal.codecs.encrypted import Decryption
from walferry.hbase.wal.codecs.phoenix import plain_entries
from walferry.hbase.wal.errors import WalError
from walferry.hbase.wal.reader import read_wal_batches
from walferry.hbase.wal.scan import scan_entries, scan_into
from walferry.hbase.wal.wal_batches import WalBatch

DECRYPTION = Decryption(WAL_KEY)
KEY_FIELDS = ["name", "scope", *["attribute"] * 4, *["many"] * 4, "bytes", "number", "number"]


def index_and_decode(data: bytes) -> None:
    buf = np.frombuffer(data, np.uint8)
    wal_batch = WalBatch(buf, 0, scan_entries(buf, 0, len(buf)).index)
    try:
        for batch in decode_wal_batch(wal_batch, "wal"):
            batch.validate(full=True)
    except WalError:
        return


def decrypt(data: bytes) -> None:
    buf = np.frombuffer(data, np.uint8)
    try:
        for batch in decode_wal_batch(DECRYPTION.entries(buf, 0).batch, "wal"):
            batch.validate(full=True)
    except WalError:
        return


def without_indexes(data: bytes) -> None:
    try:
        for batch in decode_wal_batch(plain_entries(np.frombuffer(data, np.uint8), 0).batch, "wal"):
            batch.validate(full=True)
    except WalError:
        return


def spoilt(rng: random.Random, data: bytes) -> bytes:
    """The data with one to three bytes changed, and perhaps cut off."""
    broken = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        broken[rng.randrange(len(broken))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(broken[: rng.randint(1, len(broken))])


def delimited(number: int, data: bytes) -> bytes:
    """A protobuf field of bytes."""
    return encode_varint(number << 3 | 2) + encode_varint(len(data)) + data


def hostile_key(rng: random.Random) -> bytes:
    """A compressed WALKey with fields any number of times, with short and long literals, and with many indices to them."""

    def field() -> bytes:
        if rng.random() < 0.6:
            return struct.pack(">H", rng.choice([0, 0, 1, rng.randrange(12)]))
        literal = rng.randbytes(rng.choice([1, 20, 300, 5000]))
        lie = rng.choice([0] * 40 + [1, -1, 1 << 40, 1 << 62])
        return b"\xff" + encode_varint(max(len(literal) + lie, 0)) + literal

    def message(number: int) -> bytes:
        return b"\x18\x01" + b"".join(delimited(number, field()) for _ in range(rng.choice([0, 1, 1, 1, 1, 1, 1, 1, 2])))

    parts = [b"\x0a\x02\x00\x00\x12\x02\x00\x00\x18\x05\x20\x06"] if rng.random() < 0.7 else []
    for _ in range(rng.randint(1, 6)):
        times = rng.choice([1, 1, 1, 1, 2, 50])
        match rng.choice(KEY_FIELDS):
            case "name":
                parts += [delimited(rng.choice([1, 2]), field())] * rng.choice([1, 1, 1, times])
            case "scope":
                parts += [delimited(6, message(1))] * times
            case "attribute":
                parts += [delimited(12, message(2))] * times
            case "many":  # indices that may refer to the literal before them
                literal = b"\xff" + encode_varint(2000) + rng.randbytes(2000)
                index = struct.pack(">H", rng.randrange(4))
                parts += [delimited(12, delimited(2, f)) for f in (literal, *[index] * rng.choice([3, 200]))]
            case "bytes":
                parts += [delimited(rng.choice([5, 7, 8, 15]), rng.randbytes(rng.randrange(10)))] * times
            case _:
                number, value = rng.choice([3, 4, 4, 7]), rng.choice([0, 0, 0, 5, 1 << 31, 1 << 62])
                parts.append(encode_varint(number << 3) + encode_varint(value))
    key = b"".join(parts)
    return spoilt(rng, key) if rng.random() < 0.2 else key


def expand_hostile_keys(rng: random.Random) -> bool:
    """Tell whether all of a file's keys were read, some of which are hostile."""
    encoder = Encoder(tags=True, codec=None)
    data = bytearray(encode_header(encoder.header))
    for _ in range(rng.randint(1, 2)):
        key = hostile_key(rng)
        data += b"".join(map(encoder.entry, SAMPLE)) + encode_varint(len(key)) + key
    try:
        with small_buffers(rng.choice([50, 300, 1 << 20]), rng.choice([150, 1000, 1 << 20])):
            for _ in read_wal_batches(
                MemoryFile(bytes(data)), "wal", 0, wal_batch_bytes=rng.choice([50, 1 << 20]), partial_tail="stop"
            ):
                pass
    except WalError:
        return False
    return True


def main() -> None:
    try:
        scan_into(np.zeros(1, np.uint8), 2, np.zeros((0, 1), np.int64), np.array([0, 1, 0, 0, 0]))
    except IndexError:
        pass
    else:
        raise SystemExit("kernels are not bounds-checked: set NUMBA_BOUNDSCHECK=1, and NUMBA_CACHE_DIR to an empty folder")
    rng = random.Random(1)
    entries = SAMPLE_BYTES[SAMPLE_STARTS[0] : SAMPLE_STARTS[-1]]
    for length in range(len(entries)):
        index_and_decode(entries[:length])
    for _ in range(5_000):
        index_and_decode(spoilt(rng, entries))
    fuzz(seed=2, count=3_000)
    read = sum(expand_hostile_keys(rng) for _ in range(4_000))
    assert 400 < read < 3_600, read
    sealed = SEALED[STARTS[0] : STARTS[-1]]
    for length in range(len(sealed)):
        decrypt(sealed[:length])
    for _ in range(5_000):
        decrypt(spoilt(rng, sealed))
    for _ in range(5_000):  # changes to plaintexts, which changes to ciphertexts only make by chance
        plain = bytearray(plaintext(SAMPLE[0].cells[1]))
        plain[rng.randrange(len(plain))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        key = SAMPLE[2].key.SerializeToString()  # of one cell
        decrypt(encode_varint(len(key)) + key + Sealer().seal(bytes(plain)))
    data, offsets = encode(MIXED)
    indexed = data[offsets[0] : offsets[-1]]
    for length in range(len(indexed)):
        without_indexes(indexed[:length])
    for _ in range(5_000):
        without_indexes(spoilt(rng, indexed))
    data, offsets = compress(MIXED, PhoenixEncoder(tags=True, codec=None))
    for _ in range(1_000):
        try:
            for _ in read_wal_batches(
                MemoryFile(data[: offsets[0]] + spoilt(rng, data[offsets[0] :])), "wal", 0, partial_tail="stop"
            ):
                pass
        except WalError:
            continue
    print("within bounds")


if __name__ == "__main__":
    main()
