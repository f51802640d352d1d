"""Claims a dead server's queues. `claim` chooses between `multi` (HBase 2: one multi a queue) and `classic` (copies).

`steps` has what these two share.
"""
