"""What operators are shown: how replication stands, and what WALs hold.

status        lag, what is left, what holds it, and what is wrong
inspection    the cells of WALs, for people and as JSON
"""
