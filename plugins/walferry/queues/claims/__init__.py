"""Claiming a dead server's queues: `claim` chooses between `multi`, one multi a queue in HBase 2, and `classic`, copies."""
