"""Keeps tables of a lake that have what HBase shows now, by merging a lake's changes into them.

hbase_rules     which cells a scan shows: delete markers, versions, TTL
tables          the table of state and that of markers, and their commits
change_files    the files of a table of changes that a state has not read yet
ranges          divides the rows among tasks
merging         the task: reads a range, writes what HBase shows of it
table_merge     the merge of one table, from its start to its commits
reading         reads a table of state as a scan of HBase would answer, for comparisons
merge_run       the job: all tables of a peer
"""
