"""Ships a backlog as HFiles: sorts the edits of many WALs, writes files cut at the peer cluster's regions, and has it load them.

targets                 the peer cluster's tables before a run: their regions, and how their files are written
fitness                 says why edits of a table may not be loaded as files

wals, reading, runs     a load's WALs: their edits for files, and how these are sorted into runs
survey                  the tasks' first work: count the edits of each region
shares                  deals the regions out to tasks
spilled_runs, loading   the tasks' second work: sort, write files, have them loaded
region_files            writes a region's files once, for several peers
driver, job, outcome    the whole of a load
peer_load               one peer's part in a load: leases, peer cluster, record
shared                  which other peers get the same files
load_spread             a load's tasks, as a backend runs them (walferry.base.jobs)
load_note                             notes how far a load is
"""
