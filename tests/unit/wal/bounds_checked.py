"""Run with NUMBA_BOUNDSCHECK=1: hostile bytes through every kernel, in buffers without a spare byte. Ends with IndexError if
a kernel reaches outside of its buffer."""

import random

import numpy as np

from tests.unit.wal.encoder import encode_varint
from tests.unit.wal.fuzzing import fuzz
from tests.unit.wal.sealed import WAL_KEY, Sealer, plaintext
from tests.unit.wal.test_encrypted import SEALED, STARTS
from tests.unit.wal.test_reader import SAMPLE, SAMPLE_BYTES, SAMPLE_STARTS
from walferry.wal.arrow import decode_window
from walferry.wal.encrypted import Decryption
from walferry.wal.errors import WalError
from walferry.wal.reader import Window
from walferry.wal.scan import scan_entries, scan_into

DECRYPTION = Decryption(WAL_KEY)


def index_and_decode(data: bytes) -> None:
    buf = np.frombuffer(data, np.uint8)
    window = Window(buf, 0, scan_entries(buf, 0, len(buf)).index)
    try:
        for batch in decode_window(window, "wal"):
            batch.validate(full=True)
    except WalError:
        return


def decrypt(data: bytes) -> None:
    buf = np.frombuffer(data, np.uint8)
    found = DECRYPTION.entries(buf)
    window = Window(found.buf, 0, found.index, found.start, found.end)
    try:
        for batch in decode_window(window, "wal"):
            batch.validate(full=True)
    except WalError:
        return


def spoilt(rng: random.Random, data: bytes) -> bytes:
    """With one to three other bytes, and perhaps cut off."""
    broken = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        broken[rng.randrange(len(broken))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(broken[: rng.randint(1, len(broken))])


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
    sealed = SEALED[STARTS[0] : STARTS[-1]]
    for length in range(len(sealed)):
        decrypt(sealed[:length])
    for _ in range(5_000):
        decrypt(spoilt(rng, sealed))
    for _ in range(5_000):  # plaintexts, which no flipped byte of a ciphertext reaches with intent
        plain = bytearray(plaintext(SAMPLE[0].cells[1]))
        plain[rng.randrange(len(plain))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        key = SAMPLE[2].key.SerializeToString()  # of one cell
        decrypt(encode_varint(len(key)) + key + Sealer().seal(bytes(plain)))
    print("within bounds")


if __name__ == "__main__":
    main()
