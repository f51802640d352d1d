"""What operators type, checked against what exists before anything is done.

recovery_input    queues and servers
moments           times
tables            tables
"""
