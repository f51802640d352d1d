"""Parses a peer's tables as HBase 0.98 to 1.3 keeps them: as text in a znode of their own.

    text   = table { ";" table }          "t1;t2:f1,f2"
    table  = name [ ":" family { "," family } ]

ReplicationAdmin.parseTableCFsFromConfig reads the text. It ignores blanks around each part, skips empty parts, and takes a text
without any table as all tables. The text cannot name a table of another namespace, whose name contains a colon, too. HBase 1.4
reads "ns.t" for it, but only when it copies the znode into the peer's message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from walferry.hbase.cluster_key import JAVA_BLANKS

_TABLE = re.compile(r"\w[\w.-]*")  # TableName.isLegalTableQualifierName: letters and digits of any language
MAX_SHOWN = 100


def parse_table_cfs(text: str) -> Mapping[str, tuple[str, ...]] | None:
    """Return the families by table, empty for all of its families; None if the text means all tables. Raises ValueError.

    HBase logs an error for an unreadable part and goes on without it, so it takes a wholly unreadable text as all tables.
    Walferry refuses an unreadable part.
    """
    tables: dict[str, tuple[str, ...]] = {}
    for part in map(_trimmed, text.split(";")):
        if not part:
            continue
        name, *families = map(_trimmed, part.rstrip(":").split(":"))  # Java's split drops empty parts at the end
        if len(families) > 1 or not _TABLE.fullmatch(name):
            raise ValueError(f"{part[:MAX_SHOWN]!r} is not a table with families, as in 't1;t2:f1,f2'")
        tables[name] = tuple(filter(None, map(_trimmed, families[0].split(",")))) if families else ()
    return tables or None


def _trimmed(text: str) -> str:
    return text.strip(JAVA_BLANKS)
