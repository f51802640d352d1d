"""Decrypts the entries of an encrypted WAL and rewrites them as plain entries.

    entry     = varint(key length) WALKey sealed{following_kv_count}          the WALKey is not encrypted
    sealed    = varint(16) iv varint(length) ciphertext                       AES-CTR with the WAL's key, cell by cell
    plaintext = varint keyLen, varint valLen, varint tagsLen, varint rowLen, row, varint famLen, family,
                varint qualLen, qualifier, int64 timestamp, int8 type, value, tags

An IV is the first counter block of its cell, and counts up as a big-endian number of 128 bits. There is no checksum: only lengths
that contradict each other reveal damage or a wrong key. HBase encrypts and does not compress, whatever the header says about
compression. Source: HBase's SecureWALCellCodec, AES, AbstractProtobufWALReader (branch-2.6); CommonsCryptoAES writes the same.

A plain cell is at most 11 bytes longer than its plaintext, and a sealed cell at least 18. So a buffer of encrypted entries has
room for the plain entries, and each byte moves towards the buffer's start.

One library call encrypts the counter blocks of many cells as one message in ECB mode. CTR mode is defined that way.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import INCOMPLETE, OVERLONG, read_uint8, read_varint, read_word
from walferry.base.kernels.types import Bytes, Ints, IntView, OutBytes, OutInts, OutIntTable, OutIntView, OutWordTable
from walferry.base.kernels.write import move_bytes, put_int
from walferry.hbase.wal.cells import KEY_TAIL, MAX_FAMILY, MAX_ROW, MAX_TAGS, MIN_KEY, put_lengths
from walferry.hbase.wal.keys import KEY_ROWS, KeyRow, read_entry_key
from walferry.hbase.wal.problems import MAX_ENTRY_BYTES, Fault, Problem
from walferry.hbase.wal.scan import scan_entries, widened
from walferry.hbase.wal.wal_batches import FilePart, WalBatch

IV_BYTES: Final = 16
BLOCK_BYTES: Final = 16
CHUNK_BLOCKS: Final = 16 << 10  # counter blocks encrypted at once: with their ciphertext they fit into a cache of the CPU
MIN_PLAINTEXT: Final = 15  # six lengths, timestamp, type
MIN_SEALED: Final = 1 + IV_BYTES + 1 + MIN_PLAINTEXT
MAX_SEALED_ENTRY_BYTES: Final = MAX_ENTRY_BYTES * 3 // 2  # the encrypted size of an entry of the smallest cells


class SealedEntry(enum.IntEnum):
    """The rows of the table of entries."""

    START = 0
    CELLS_START = 1
    FIRST_CELL = 2
    CELLS = 3


class SealedCell(enum.IntEnum):
    """The rows of the table of cells."""

    START = 0
    DATA_START = 1
    DATA_LEN = 2
    PLAIN_START = 3


class WalkState(enum.IntEnum):
    """The elements of the state of `walk_into`."""

    ENTRIES = 0
    CELLS = 1
    POS = 2
    PROBLEM = 3
    AT = 4
    NEED = 5


class Full(enum.IntEnum):
    """Which table `walk_into` needs to be wider."""

    NEITHER = 0
    ENTRIES = 1
    CELLS = 2


CURSOR_CELL, CURSOR_BLOCK = range(2)
NO_ROOM: Final = -3  # distinct from INCOMPLETE and OVERLONG


class Decryption:
    """Decrypts one WAL's entries with its key of 16, 24 or 32 bytes."""

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(AES(key), ECB()).encryptor()
        self._blocks = np.empty((CHUNK_BLOCKS, 2), dtype=np.uint64)
        self._stream = np.empty((CHUNK_BLOCKS + 1) * BLOCK_BYTES, dtype=np.uint8)  # the library wants one block more

    def __repr__(self) -> str:
        return "Decryption(…)"

    def entries(self, buf: Bytes, base: int) -> FilePart:
        """Decrypt the whole entries in `buf`, which begins with an entry, and stop at bytes that cannot be a WAL entry.

        `buf` lies at offset `base` of the file. The batch contains plain entries.
        """
        entries, cells, state = _walk(buf)
        consumed, code, at, need = (int(x) for x in state[WalkState.POS :])
        work = np.empty(consumed, dtype=np.uint8)
        self._decrypt(buf, work, cells)
        whole, broken_cell, plain_end = (int(x) for x in rewrite(buf, work, entries, cells))
        found = scan_entries(work, 0, plain_end)
        start = entries[SealedEntry.START, : len(found.index)]
        if found.fault is not None:
            code = found.fault.problem
            at = _sealed_offset(entries, cells, len(start), found.fault.offset)
        elif whole < entries.shape[1]:
            code, at = Problem.BAD_PLAINTEXT, int(cells[SealedCell.START, broken_cell])
        if len(start) < entries.shape[1]:
            consumed = need = int(entries[SealedEntry.START, len(start)])
        end = np.append(entries[SealedEntry.START, 1 : len(start)], consumed) if len(start) else start
        fault = Fault(base + at, Problem(code)) if code else None
        return FilePart(WalBatch(work, base, found.index, start + base, end + base), base + consumed, fault, base + need)

    def _decrypt(self, buf: Bytes, work: Bytes, cells: Ints) -> None:
        """Write the plaintexts of `cells` to `work`, at the offsets that the ciphertexts have in `buf`."""
        counted, applied = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
        while blocks := counters_into(buf, cells, counted, self._blocks):
            size = blocks * BLOCK_BYTES
            counters = self._blocks[:blocks].view(np.uint8).reshape(-1)
            self._encryptor.update_into(counters.data, self._stream[: size + BLOCK_BYTES].data)
            apply(buf, work, cells, applied, self._stream, blocks)


def _walk(buf: Bytes) -> tuple[Ints, Ints, Ints]:
    """Return the tables of the whole entries in `buf` and of their cells, and the state in which the walk ended."""
    state = np.zeros(len(WalkState), dtype=np.int64)
    entries = np.empty((len(SealedEntry), 256 + len(buf) // 256), dtype=np.int64)
    cells = np.empty((len(SealedCell), 256 + len(buf) // 128), dtype=np.int64)
    scratch = np.empty((KEY_ROWS, 1), dtype=np.int64)
    while full := walk_into(buf, entries, cells, scratch, state):
        if full == Full.ENTRIES:
            entries = widened(entries)
        else:
            cells = widened(cells)
    return entries[:, : state[WalkState.ENTRIES]], cells[:, : state[WalkState.CELLS]], state


def _sealed_offset(entries: Ints, cells: Ints, entry: int, plain_offset: int) -> int:
    """Return the start of the sealed cell that contains the plain offset, or the entry's start if its key contains it."""
    first = entries[SealedEntry.FIRST_CELL, entry]
    own = cells[:, first : first + entries[SealedEntry.CELLS, entry]]
    cell = int(np.searchsorted(own[SealedCell.PLAIN_START], plain_offset, side="right")) - 1
    return int(own[SealedCell.START, cell] if cell >= 0 else entries[SealedEntry.START, entry])


@inlined
def walk_sealed(buf: Bytes, start: int, end: int, count: int, cells: OutIntTable, total: int) -> tuple[int, int]:
    """Enter `count` cells from `start` on into `cells`, after its first `total` cells.

    Returns (position after them, 0), or (offset, the Problem there), or (smallest end of the range to go on, INCOMPLETE). If the
    table is full, the second number is NO_ROOM.
    """
    limit = start + MAX_SEALED_ENTRY_BYTES
    pos = start
    for left in range(count, 0, -1):
        if left * MIN_SEALED > limit - pos:
            return pos, Problem.BAD_CELL_COUNT if left == count else Problem.ENTRY_TOO_LONG
        if pos < end and read_uint8(buf, pos) != IV_BYTES:
            return pos, Problem.BAD_IV_LENGTH
        length, data = read_varint(buf, pos + 1 + IV_BYTES, end)
        if data == INCOMPLETE:
            return max(end + 1, pos + MIN_SEALED), INCOMPLETE
        if data == OVERLONG or length < MIN_PLAINTEXT or length > MAX_ENTRY_BYTES:
            return pos + 1 + IV_BYTES, Problem.BAD_SEALED_LENGTH
        after = data + length
        if after > limit:
            return pos, Problem.ENTRY_TOO_LONG
        if after > end:
            return after, INCOMPLETE
        if total == cells.shape[1]:
            return pos, NO_ROOM
        cells[SealedCell.START, total] = pos
        cells[SealedCell.DATA_START, total] = data
        cells[SealedCell.DATA_LEN, total] = length
        total += 1
        pos = after
    return pos, 0


@unmanaged
def walk_into(buf: Bytes, entries: OutIntTable, cells: OutIntTable, scratch: OutIntTable, state: OutInts) -> int:
    """Enter the entries from `state[WalkState.POS]` on. Returns which table must be wider for the walk to go on."""
    count, total, pos, end = state[WalkState.ENTRIES], state[WalkState.CELLS], state[WalkState.POS], buf.size
    at, status, full = pos, 0, Full.NEITHER
    while pos < end:
        if count == entries.shape[1]:
            full = Full.ENTRIES
            break
        key, first, status = read_entry_key(buf, pos, end, scratch, 0)
        if status != 0:
            at = key
            break
        number = scratch[KeyRow.CELL_COUNT, 0]
        at, status = walk_sealed(buf, first, end, number, cells, total)
        if status == NO_ROOM:
            status, full = 0, Full.CELLS
            break
        if status != 0:
            break
        entries[SealedEntry.START, count] = pos
        entries[SealedEntry.CELLS_START, count] = first
        entries[SealedEntry.FIRST_CELL, count] = total
        entries[SealedEntry.CELLS, count] = number
        count += 1
        total += number
        pos = at
    state[WalkState.ENTRIES], state[WalkState.CELLS], state[WalkState.POS] = count, total, pos
    state[WalkState.PROBLEM] = status if status > 0 else 0
    state[WalkState.AT] = at
    state[WalkState.NEED] = at if status == INCOMPLETE else pos
    return full


@inlined
def big_endian(word: Any) -> Any:
    """Return `word` with its bytes reversed: little-endian memory then contains it as a big-endian number."""
    value = np.uint64(0)
    for _ in range(8):  # the compiler makes one instruction of this
        value = value << np.uint64(8) | np.uint64(word & np.uint64(0xFF))
        word = word >> np.uint64(8)
    return value


@unmanaged
def counters_into(buf: Bytes, cells: IntView, cursor: OutInts, blocks: OutWordTable) -> int:
    """Fill `blocks` with counter blocks of the cells from `cursor` on, and move the cursor. Returns the number of blocks."""
    cell, block = cursor[CURSOR_CELL], cursor[CURSOR_BLOCK]
    count = 0
    while cell < cells.shape[1] and count < blocks.shape[0]:
        needed = (cells[SealedCell.DATA_LEN, cell] + BLOCK_BYTES - 1) // BLOCK_BYTES
        iv = cells[SealedCell.START, cell] + 1
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
def apply(buf: Bytes, work: OutBytes, cells: IntView, cursor: OutInts, stream: Bytes, blocks: int) -> None:
    """Decrypt the cells from `cursor` on with `blocks` blocks of the key stream, and move the cursor."""
    cell, block = cursor[CURSOR_CELL], cursor[CURSOR_BLOCK]
    used = 0
    while used < blocks:
        length = cells[SealedCell.DATA_LEN, cell]
        needed = (length + BLOCK_BYTES - 1) // BLOCK_BYTES
        taken = min(needed - block, blocks - used)
        begin = block * BLOCK_BYTES
        size = min(length - begin, taken * BLOCK_BYTES)
        at, key = np.uint64(cells[SealedCell.DATA_START, cell] + begin), np.uint64(used * BLOCK_BYTES)
        for i in range(np.uint64(size)):
            work[at + i] = buf[at + i] ^ stream[key + i]
        used += taken
        block += taken
        if block == needed:
            cell, block = cell + 1, 0
    cursor[CURSOR_CELL], cursor[CURSOR_BLOCK] = cell, block


@inlined
def rewrite_cell(work: OutBytes, start: int, length: int, out: int) -> int:
    """Write the plaintext `work[start:start + length]` as a plain cell to `work[out:]`.

    Returns its end, or -1 if it is not a cell.
    """
    end = start + length
    key_len, pos = read_varint(work, start, end)
    val_len, pos = read_varint(work, pos, end) if pos > 0 else (0, pos)
    tags_len, pos = read_varint(work, pos, end) if pos > 0 else (0, pos)
    row_len, row = read_varint(work, pos, end) if pos > 0 else (0, pos)
    if row < 0 or row_len < 0 or row_len > MAX_ROW or row_len > end - row:
        return -1
    fam_len, family = read_varint(work, row + row_len, end)
    if family < 0 or fam_len < 0 or fam_len > MAX_FAMILY or fam_len > end - family:
        return -1
    qual_len, qualifier = read_varint(work, family + fam_len, end)
    if qualifier < 0 or qual_len < 0 or qual_len > end - qualifier:
        return -1
    rest = qualifier + qual_len
    if val_len < 0 or val_len > end - rest or tags_len < 0 or tags_len > MAX_TAGS or end - rest != KEY_TAIL + val_len + tags_len:
        return -1
    if key_len != MIN_KEY + row_len + fam_len + qual_len:
        return -1
    out = put_lengths(work, out, key_len, val_len, tags_len)
    out = move_bytes(work, put_int(work, out, row_len, 2), work, row, row_len)
    out = move_bytes(work, put_int(work, out, fam_len, 1), work, family, fam_len)
    out = move_bytes(work, out, work, qualifier, qual_len)
    out = move_bytes(work, out, work, rest, KEY_TAIL + val_len)
    if tags_len > 0:
        out = move_bytes(work, put_int(work, out, tags_len, 2), work, end - tags_len, tags_len)
    return out


@unmanaged
def rewrite(buf: Bytes, work: OutBytes, entries: IntView, cells: OutIntView) -> tuple[int, int, int]:
    """Write plain entries to the start of `work`, which contains each cell's plaintext where `buf` contains its ciphertext.

    Returns the number of entries written, the first cell whose plaintext is not a cell (or the number of cells), and where the
    entries end.
    """
    out = 0
    for entry in range(entries.shape[1]):
        begin = out
        start, first = entries[SealedEntry.START, entry], entries[SealedEntry.FIRST_CELL, entry]
        out = move_bytes(work, out, buf, start, entries[SealedEntry.CELLS_START, entry] - start)
        for cell in range(first, first + entries[SealedEntry.CELLS, entry]):
            cells[SealedCell.PLAIN_START, cell] = out
            after = rewrite_cell(work, cells[SealedCell.DATA_START, cell], cells[SealedCell.DATA_LEN, cell], out)
            if after < 0:
                return entry, cell, begin
            out = after
    return entries.shape[1], cells.shape[1], out
