"""Claims a dead server's queues. `claim` chooses between `multi` (HBase 2: one multi a queue) and `classic` (copies), and deletes
queues of peers that no longer exist.

`steps` contains the steps that both share.
"""
