"""Claiming a dead server's queues: `claim` chooses between `multi` (one multi a queue, HBase 2) and `classic` (copies).

`steps` is what these two share.
"""
