"""Entries of an encrypted WAL, rewritten as those of a plain one.

    entry     = varint(key length) WALKey sealed{following_kv_count}          the WALKey is not encrypted
    sealed    = varint(16) iv varint(length) ciphertext                       AES-CTR with the WAL's key, each cell for itself
    plaintext = varint keyLen, varint valLen, varint tagsLen, varint rowLen, row, varint famLen, family,
                varint qualLen, qualifier, int64 timestamp, int8 type, value, tags

An IV is the first counter block of its cell, counted up as a big-endian number of 128 bits. There is no checksum: only the
lengths, which have to fit each other, tell damage or a wrong key. HBase encrypts and does not compress, whatever the header says
of compression. Source: HBase's SecureWALCellCodec, AES, AbstractProtobufWALReader (branch-2.6); CommonsCryptoAES writes the same.

A plain cell is at most 11 bytes longer than its plaintext, and a sealed one at least 18: so a buffer of encrypted entries has
room for them as plain ones, and each byte moves towards the buffer's start.

The counter blocks of many cells are encrypted by one call of the library, as one message in ECB mode, which is what CTR mode is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

from walferry.kernels.compiled import inlined, unmanaged
from walferry.kernels.read import INCOMPLETE, OVERLONG, Bytes, Ints, read_uint8, read_varint
from walferry.wal.scan import (
    BAD_CELL_COUNT,
    CELL_COUNT,
    CELL_LENGTHS,
    ENTRY_TOO_LONG,
    FIELDS,
    MAX_ENTRY_BYTES,
    MAX_FAMILY,
    MAX_ROW,
    MAX_TAGS,
    MIN_KEY,
    PROBLEMS,
    EntryIndex,
    read_entry_key,
    scan_entries,
)

Words = NDArray[np.uint64]

IV_BYTES: Final = 16
BLOCK_BYTES: Final = 16
CHUNK_BLOCKS: Final = 16 << 10  # counter blocks encrypted at once: with their ciphertext they fit into a cache of the CPU
MIN_PLAINTEXT: Final = 15  # six lengths, timestamp, type
MIN_SEALED: Final = 1 + IV_BYTES + 1 + MIN_PLAINTEXT
MAX_SEALED_ENTRY_BYTES: Final = MAX_ENTRY_BYTES * 3 // 2  # what becomes of an entry of the smallest cells

# What can be wrong beside the PROBLEMS of plain entries.
BAD_IV_LENGTH: Final = 101
BAD_SEALED_LENGTH: Final = 102
BAD_PLAINTEXT: Final = 103
SEALED_PROBLEMS: Final = PROBLEMS | {
    BAD_IV_LENGTH: f"the length of an encrypted cell's IV is not {IV_BYTES}",
    BAD_SEALED_LENGTH: f"the length of an encrypted cell is not between {MIN_PLAINTEXT} and {MAX_ENTRY_BYTES}",
    BAD_PLAINTEXT: "what was decrypted is no cell, its lengths contradict each other: it is damaged, or the key is not this "
    "file's, or the cluster has set another mode than AES/CTR/NoPadding",
}

# Rows of the tables that the kernels fill: one column an entry, one a cell.
ENTRY_START, ENTRY_CELLS, FIRST_CELL, CELLS = range(4)
SEALED_START, DATA_START, DATA_LEN, PLAIN_START = range(4)

# Elements of the first kernel's state, and of the others'.
ENTRY_COUNT, ALL_CELLS, POS, PROBLEM, AT, NEED = range(6)
CURSOR_CELL, CURSOR_BLOCK = range(2)
FULL_ENTRIES: Final = 1
FULL_CELLS: Final = 2
NO_ROOM: Final = -3  # beside INCOMPLETE and OVERLONG


@dataclass(frozen=True)
class Decrypted:
    """The whole entries at the start of a buffer as plain ones: `index` is of `buf`. All else counts in the encrypted buffer."""

    buf: Bytes
    index: EntryIndex
    start: Ints  # where each entry begins
    end: Ints
    consumed: int
    problem: tuple[int, str] | None  # where, what
    need: int  # end of the range at which one can learn more of an unfinished entry; `consumed` if there is none


class Decryption:
    """Decrypts one WAL's entries with its key of 16, 24 or 32 bytes."""

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(AES(key), ECB()).encryptor()
        self._blocks = np.empty((CHUNK_BLOCKS, 2), dtype=np.uint64)
        self._stream = np.empty((CHUNK_BLOCKS + 1) * BLOCK_BYTES, dtype=np.uint8)  # the library wants one block more

    def __repr__(self) -> str:
        return "Decryption(…)"

    def entries(self, buf: Bytes) -> Decrypted:
        """The entries that lie wholly in `buf`, which begins with an entry, up to one that cannot be a WAL's."""
        entries, cells, state = _walk(buf)
        consumed, code, at, need = (int(x) for x in state[POS:])
        work = np.empty(consumed, dtype=np.uint8)
        self._decrypt(buf, work, cells)
        whole, broken_cell, plain_end = (int(x) for x in rewrite(buf, work, entries, cells))
        found = scan_entries(work, 0, plain_end)
        start = entries[ENTRY_START, : len(found.index)]
        if found.problem is not None:
            code = found.problem.code
            at = _sealed_offset(entries, cells, len(start), found.problem.offset)
        elif whole < entries.shape[1]:
            code, at = BAD_PLAINTEXT, int(cells[SEALED_START, broken_cell])
        if len(start) < entries.shape[1]:
            consumed = need = int(entries[ENTRY_START, len(start)])
        end = np.append(entries[ENTRY_START, 1 : len(start)], consumed) if len(start) else start
        return Decrypted(work, found.index, start, end, consumed, (at, SEALED_PROBLEMS[code]) if code else None, need)

    def _decrypt(self, buf: Bytes, work: Bytes, cells: Ints) -> None:
        """Write the plaintexts of `cells` to `work`, where the ciphertexts lie in `buf`."""
        counted, applied = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
        while blocks := counters_into(buf, cells, counted, self._blocks):
            size = blocks * BLOCK_BYTES
            counters = self._blocks[:blocks].view(np.uint8).reshape(-1)
            self._encryptor.update_into(counters.data, self._stream[: size + BLOCK_BYTES].data)
            apply(buf, work, cells, applied, self._stream, blocks)


def _walk(buf: Bytes) -> tuple[Ints, Ints, Ints]:
    """The tables of the whole entries in `buf` and of their cells, and the state in which the walk ended."""
    state = np.zeros(6, dtype=np.int64)
    entries = np.empty((4, 256 + len(buf) // 256), dtype=np.int64)
    cells = np.empty((4, 256 + len(buf) // 128), dtype=np.int64)
    scratch = np.empty((FIELDS, 1), dtype=np.int64)
    while full := walk_into(buf, entries, cells, scratch, state):
        if full == FULL_ENTRIES:
            entries = _wider(entries)
        else:
            cells = _wider(cells)
    return entries[:, : state[ENTRY_COUNT]], cells[:, : state[ALL_CELLS]], state


def _wider(table: Ints) -> Ints:
    wider = np.empty((table.shape[0], 2 * table.shape[1]), dtype=np.int64)
    wider[:, : table.shape[1]] = table
    return wider


def _sealed_offset(entries: Ints, cells: Ints, entry: int, plain_offset: int) -> int:
    """Where the cell of an entry began that now lies around an offset; the entry's start if the offset is before its cells."""
    first = entries[FIRST_CELL, entry]
    own = cells[:, first : first + entries[CELLS, entry]]
    cell = int(np.searchsorted(own[PLAIN_START], plain_offset, side="right")) - 1
    return int(own[SEALED_START, cell] if cell >= 0 else entries[ENTRY_START, entry])


@inlined
def walk_sealed(buf: Bytes, start: int, end: int, count: int, cells: Ints, total: int) -> tuple[int, int]:
    """Enter `count` cells from `start` on into `cells`, behind the `total` that are there.

    Returns (position after them, 0), or (offset, what is wrong there), or (least end of range needed, INCOMPLETE), or NO_ROOM as
    the second if the table is full.
    """
    limit = start + MAX_SEALED_ENTRY_BYTES
    pos = start
    for left in range(count, 0, -1):
        if left * MIN_SEALED > limit - pos:
            return pos, BAD_CELL_COUNT if left == count else ENTRY_TOO_LONG
        if pos < end and read_uint8(buf, pos) != IV_BYTES:
            return pos, BAD_IV_LENGTH
        length, data = read_varint(buf, pos + 1 + IV_BYTES, end)
        if data == INCOMPLETE:
            return max(end + 1, pos + MIN_SEALED), INCOMPLETE
        if data == OVERLONG or length < MIN_PLAINTEXT or length > MAX_ENTRY_BYTES:
            return pos + 1 + IV_BYTES, BAD_SEALED_LENGTH
        after = data + length
        if after > limit:
            return pos, ENTRY_TOO_LONG
        if after > end:
            return after, INCOMPLETE
        if total == cells.shape[1]:
            return pos, NO_ROOM
        cells[SEALED_START, total] = pos
        cells[DATA_START, total] = data
        cells[DATA_LEN, total] = length
        total += 1
        pos = after
    return pos, 0


@unmanaged
def walk_into(buf: Bytes, entries: Ints, cells: Ints, scratch: Ints, state: Ints) -> int:
    """Enter the entries from `state[POS]` on. Returns which table is full, to be continued with a wider one, or 0."""
    count, total, pos, end = state[ENTRY_COUNT], state[ALL_CELLS], state[POS], buf.size
    at, status, full = pos, 0, 0
    while pos < end:
        if count == entries.shape[1]:
            full = FULL_ENTRIES
            break
        key, first, status = read_entry_key(buf, pos, end, scratch, 0)
        if status != 0:
            at = key
            break
        number = scratch[CELL_COUNT, 0]
        at, status = walk_sealed(buf, first, end, number, cells, total)
        if status == NO_ROOM:
            status, full = 0, FULL_CELLS
            break
        if status != 0:
            break
        entries[ENTRY_START, count] = pos
        entries[ENTRY_CELLS, count] = first
        entries[FIRST_CELL, count] = total
        entries[CELLS, count] = number
        count += 1
        total += number
        pos = at
    state[ENTRY_COUNT], state[ALL_CELLS], state[POS] = count, total, pos
    state[PROBLEM] = status if status > 0 else 0
    state[AT] = at
    state[NEED] = at if status == INCOMPLETE else pos
    return full


@inlined
def read_word(buf: Bytes, pos: int) -> Any:
    """The eight bytes at `pos` as a big-endian uint64; the caller has checked that they are there."""
    value = np.uint64(0)
    for i in range(np.uint64(8)):  # becomes one load
        value = value << np.uint64(8) | np.uint64(buf[np.uint64(pos) + i])
    return value


@inlined
def big_endian(word: Any) -> Any:
    """The uint64 whose bytes in memory, on a little-endian machine, are those of the uint64 `word` as a big-endian number."""
    value = np.uint64(0)
    for _ in range(8):  # becomes one instruction
        value = value << np.uint64(8) | np.uint64(word & np.uint64(0xFF))
        word = word >> np.uint64(8)
    return value


@unmanaged
def counters_into(buf: Bytes, cells: Ints, cursor: Ints, blocks: Words) -> int:
    """Fill `blocks` with counter blocks of the cells from `cursor` on, and move it. Returns how many there are."""
    cell, block = cursor[CURSOR_CELL], cursor[CURSOR_BLOCK]
    count = 0
    while cell < cells.shape[1] and count < blocks.shape[0]:
        needed = (cells[DATA_LEN, cell] + BLOCK_BYTES - 1) // BLOCK_BYTES
        iv = cells[SEALED_START, cell] + 1
        high, low = read_word(buf, iv), read_word(buf, iv + 8)
        stop = min(needed, block + blocks.shape[0] - count)
        for number in range(np.uint64(block), np.uint64(stop)):
            value = low + number
            blocks[count, 0] = big_endian(high + np.uint64(value < low))
            blocks[count, 1] = big_endian(value)
            count += 1
        block = stop
        if block == needed:
            cell, block = cell + 1, 0
    cursor[CURSOR_CELL], cursor[CURSOR_BLOCK] = cell, block
    return count


@unmanaged
def apply(buf: Bytes, work: Bytes, cells: Ints, cursor: Ints, stream: Bytes, blocks: int) -> None:
    """Decrypt, from `cursor` on, what `blocks` blocks of the key stream are for, and move it."""
    cell, block = cursor[CURSOR_CELL], cursor[CURSOR_BLOCK]
    used = 0
    while used < blocks:
        length = cells[DATA_LEN, cell]
        needed = (length + BLOCK_BYTES - 1) // BLOCK_BYTES
        taken = min(needed - block, blocks - used)
        begin = block * BLOCK_BYTES
        size = min(length - begin, taken * BLOCK_BYTES)
        at, key = np.uint64(cells[DATA_START, cell] + begin), np.uint64(used * BLOCK_BYTES)
        for i in range(np.uint64(size)):
            work[at + i] = buf[at + i] ^ stream[key + i]
        used += taken
        block += taken
        if block == needed:
            cell, block = cell + 1, 0
    cursor[CURSOR_CELL], cursor[CURSOR_BLOCK] = cell, block


@inlined
def copy(out: Bytes, to: int, buf: Bytes, start: int, length: int) -> int:
    """Copy to another buffer, or towards the start of the same one. Returns the position after it."""
    target, source, size = np.uint64(to), np.uint64(start), np.uint64(length)
    eight = np.uint64(8)
    i = np.uint64(0)
    while i + eight <= size:
        word = np.uint64(0)
        for k in range(eight):  # becomes one load
            word |= np.uint64(buf[source + i + k]) << (k * eight)
        for k in range(eight):  # becomes one store
            out[target + i + k] = np.uint8(word >> (k * eight) & np.uint64(0xFF))
        i += eight
    while i < size:
        out[target + i] = buf[source + i]
        i += np.uint64(1)
    return to + length


@inlined
def write_int(out: Bytes, to: int, value: int, width: int) -> int:
    """A big-endian number of `width` bytes. Returns the position after it."""
    for i in range(width):
        out[np.uint64(to + i)] = value >> 8 * (width - 1 - i) & 0xFF
    return to + width


@inlined
def rewrite_cell(work: Bytes, start: int, length: int, out: int) -> int:
    """Write the plaintext `work[start:start + length]` as a plain cell to `work[out:]`. Returns its end, -1 if it is no cell."""
    end = start + length
    key_len, pos = read_varint(work, start, end)
    if pos < 0:
        return -1
    val_len, pos = read_varint(work, pos, end)
    if pos < 0:
        return -1
    tags_len, pos = read_varint(work, pos, end)
    if pos < 0:
        return -1
    row_len, row = read_varint(work, pos, end)
    if row < 0 or row_len < 0 or row_len > MAX_ROW or row_len > end - row:
        return -1
    fam_len, family = read_varint(work, row + row_len, end)
    if family < 0 or fam_len < 0 or fam_len > MAX_FAMILY or fam_len > end - family:
        return -1
    qual_len, qualifier = read_varint(work, family + fam_len, end)
    if qualifier < 0 or qual_len < 0 or qual_len > end - qualifier:
        return -1
    rest = qualifier + qual_len
    if val_len < 0 or val_len > end - rest or tags_len < 0 or tags_len > MAX_TAGS or end - rest != 9 + val_len + tags_len:
        return -1
    if key_len != MIN_KEY + row_len + fam_len + qual_len:
        return -1
    out = write_int(work, out, CELL_LENGTHS - 4 + key_len + val_len + (2 + tags_len if tags_len > 0 else 0), 4)
    out = write_int(work, write_int(work, out, key_len, 4), val_len, 4)
    out = copy(work, write_int(work, out, row_len, 2), work, row, row_len)
    out = copy(work, write_int(work, out, fam_len, 1), work, family, fam_len)
    out = copy(work, out, work, qualifier, qual_len)
    out = copy(work, out, work, rest, 9 + val_len)
    if tags_len > 0:
        out = copy(work, write_int(work, out, tags_len, 2), work, end - tags_len, tags_len)
    return out


@unmanaged
def rewrite(buf: Bytes, work: Bytes, entries: Ints, cells: Ints) -> tuple[int, int, int]:
    """Write plain entries to the start of `work`, which has the cells' plaintexts where `buf` has their ciphertexts.

    Returns how many entries were written, the first cell that is none (or their number), and the end of the entries written.
    """
    out = 0
    for entry in range(entries.shape[1]):
        begin = out
        start, first = entries[ENTRY_START, entry], entries[FIRST_CELL, entry]
        out = copy(work, out, buf, start, entries[ENTRY_CELLS, entry] - start)
        for cell in range(first, first + entries[CELLS, entry]):
            cells[PLAIN_START, cell] = out
            after = rewrite_cell(work, cells[DATA_START, cell], cells[DATA_LEN, cell], out)
            if after < 0:
                return entry, cell, begin
            out = after
    return entries.shape[1], cells.shape[1], out
