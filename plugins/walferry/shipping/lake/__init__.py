"""Ships a peer's queued WALs into a lake: tasks write what the WALs have as files, and the driver commits them.

catalog     the tables of changes of a peer
tables      the ones that a batch may write to, and why others cannot be used
copied      what tables have of a first copy, and which edits that contains
driver      leases, tasks, one commit a table, then the positions in the queues
reading     a task: reads one WAL group, and writes its changes as files of the tables
"""
