"""Answers operators' questions about WALs: who wrote a row, when, and where it lies. `walferry.cli.wal` asks them.

    listing                          finds the files to search
    searching                        searches one file, and many files in parallel
    selection                        chooses the wanted cells of a WAL batch
    layouts, printing, characters    print cells as text for people, or as JSON

Nothing here needs ZooKeeper or a running cluster, and no code here writes files.
"""
