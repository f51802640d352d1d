"""What the demo writes: tables with families that are replicated and families that are not, and two rounds of edits."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from embedded import wire
from embedded.client import GLOBAL, LOCAL, even_splits
from embedded.wire import Mutation

TABLES: Mapping[str, Mapping[str, int]] = {
    "orders": {"item": GLOBAL, "audit": LOCAL},
    "clicks": {"click": GLOBAL},
    "drafts": {"text": LOCAL},
}
SPLITS = {"clicks": even_splits(4)}
VERSIONS = 3
ROWS = 2000  # a table and round


def first_round() -> dict[str, list[Mutation]]:
    """New rows in all tables; in `orders` some are changed and some deleted again, in every way HBase knows."""
    chance = random.Random(1)
    return {
        "orders": [*_new_orders(0, chance), *_changed_orders(chance), *_deleted_orders(chance)],
        "clicks": list(_clicks(0, chance)),
        "drafts": [wire.put(f"draft{i:06}", {"text:body": chance.randbytes(60)}) for i in range(ROWS)],
    }


def second_round() -> dict[str, list[Mutation]]:
    """More rows, and changes and deletes of rows of the first round."""
    chance = random.Random(2)
    return {
        "orders": [*_new_orders(ROWS, chance), *_changed_orders(chance), *_deleted_orders(chance)],
        "clicks": list(_clicks(ROWS, chance)),
        "drafts": [wire.delete_row(f"draft{i:06}") for i in range(0, ROWS, 7)],
    }


def _new_orders(first: int, chance: random.Random) -> Iterator[Mutation]:
    for i in range(first, first + ROWS):
        values: dict[str | bytes, bytes] = {
            "item:name": f"thing {i}".encode(),
            "item:note": chance.randbytes(40),
            "audit:by": b"demo",
        }
        yield wire.put(f"order{i:06}", values)


def _changed_orders(chance: random.Random) -> Iterator[Mutation]:
    for i in chance.sample(range(ROWS), ROWS // 10):
        yield wire.put(f"order{i:06}", {"item:note": chance.randbytes(40)})
        yield wire.increment(f"order{i:06}", {"item:count": chance.randint(1, 9), "audit:changes": 1})
        yield wire.append(f"order{i:06}", {"item:name": b" (changed)"})


def _deleted_orders(chance: random.Random) -> Iterator[Mutation]:
    for i in chance.sample(range(ROWS), ROWS // 10):
        row = f"order{i:06}"
        match i % 4:
            case 0:
                yield wire.delete_row(row)
            case 1:
                yield wire.delete_family(row, "item")
            case 2:
                yield wire.delete_column(row, "item:note")
            case 3:
                yield wire.delete_version(row, "item:note")


def _clicks(first: int, chance: random.Random) -> Iterator[Mutation]:
    for i in range(first, first + ROWS):
        yield wire.put(f"{chance.getrandbits(64):016x}", {"click:page": f"/page/{i % 50}".encode(), "click:at": str(i).encode()})
