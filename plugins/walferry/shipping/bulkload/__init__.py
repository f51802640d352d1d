"""Ships a backlog as HFiles: sorts the edits of many WALs, writes files cut at the peer cluster's regions, and has it load them.

targets                 the peer cluster's tables before a run: their regions, and how their files are written
fitness                 says why edits of a table may not be loaded as files

wals, rows                            the input of the tasks, and the rows of the shuffle between them
reading, runs                         the tasks' work before the shuffle: sorted runs of edits
spilled_runs, loading                 the tasks' work after the shuffle
driver, job, outcome                  the whole of a load
load_spread                           a load's tasks, as a backend runs them (walferry.base.jobs)
load_note                             notes how far a load is
"""
