"""Ships a backlog as HFiles: edits of many WALs are sorted, written as files cut at the slave's regions, and loaded there.

trial                   whether the slave takes files at all
targets                 the slave's tables as they are before a run: their regions, and how their files are written
fitness, expressions    why edits of a table may not be loaded as files
left_to_requests        which edits are shipped by requests for that

wals, rows                            what goes into the tasks, and through the shuffle between them
reading, runs                         what tasks do before the shuffle: sorted runs of edits
spilled_runs, loading, region_load    what tasks do after it
driver, job, outcome                  the whole of a load
load_spread, load_tasks               its tasks, as a backend runs them (walferry.base.jobs)
load_progress, load_note              how far it is
"""
