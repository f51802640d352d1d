"""What URLs of files mean. They are Hadoop's, as HBase writes them: nothing in a path is encoded, and no character begins a query
or a fragment, so a name of HBase's is put into a path as it is.
"""

from __future__ import annotations


def path_of(url: str) -> str:
    """The path in its file system of a URL on HDFS, taken literally; a path is returned as it is."""
    if url.startswith("/"):
        return url
    rest = url.partition(":")[2]
    if rest.startswith("//"):
        rest = "/" + rest[2:].partition("/")[2]
    return rest.rstrip("/") or "/"
