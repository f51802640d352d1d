"""Ships a backlog as HFiles: edits of many WALs are sorted, written as files cut at the slave's regions, and loaded there.

    trial      whether the slave takes files at all
    targets    the slave's tables as they are before a run: their regions, and how their files are written
    fitness, expressions        why edits of a table may not be loaded as files

    wals, rows                  what goes into the tasks, and through the shuffle between them
    reading, held_runs, loading, region_load     what the tasks do before the shuffle, and after it
    numbered                    has files loaded, and looks whether they count as younger than what the slave has
    driver, job, outcome, left  the whole of a load, but for what spreads its tasks over machines (walferry.spark)
    records, before, staging    what keeps a load that was killed from doing harm

`shipping` asks `before` what is loaded already; `driver` and `reading` use what `shipping` has for groups and closed WALs.
"""
