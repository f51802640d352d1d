"""What operators are shown: how replication stands, and the contents of WALs.

complete_hours    the hours that peer clusters have complete, for those who wait for them
status            lag, backlog, the runs that hold it, and findings
inspection        the cells of WALs, for people and as JSON
"""
