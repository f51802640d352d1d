"""What operators ask WALs: who wrote this row, when, and where it lies. `walferry.cli.wal` asks.

    listing                          which files to look into
    searching                        one file, and many files side by side
    selection                        which cells of a window are wanted
    layouts, printing, characters    cells as text for people, or as JSON

Nothing here needs ZooKeeper or a running cluster, and nothing writes files.
"""
