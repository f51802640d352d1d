"""Ships a backlog as HFiles: edits of many WALs are sorted, written as files cut at the slave's regions, and loaded there.

    targets    the slave's tables as they are before a run: their regions, and how their files are written
    fitness    why edits of a table may not be loaded as files

This package imports `hfiles`, `filters`, `tables`, `rpc`, `hbase` and what lies below them.
"""
