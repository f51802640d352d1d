"""Ships a backlog as HFiles: edits of many WALs are sorted, written as files cut at the slave's regions, and loaded there.

targets                 the slave's tables as they are before a run: their regions, and how their files are written
fitness                 why edits of a table may not be loaded as files

wals, rows                            what goes into the tasks, and through the shuffle between them
reading, runs                         what tasks do before the shuffle: sorted runs of edits
spilled_runs, loading, region_load    what tasks do after it
driver, job, outcome                  the whole of a load
load_spread, load_tasks               its tasks, as a backend runs them (walferry.base.jobs)
load_note                             how far it is
"""
