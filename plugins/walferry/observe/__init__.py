"""What operators are shown: how replication stands, and the contents of WALs.

status        lag, backlog, the runs that hold it, and findings
inspection    the cells of WALs, for people and as JSON
"""
