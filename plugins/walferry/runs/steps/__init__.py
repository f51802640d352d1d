"""The steps of runs that lie around a Spark job. Each reads ZooKeeper afresh, and may be run again at any time.

batch               choosing what to ship, planning it, and what comes after
recovery            dead servers' queues
replay              an interval that is shipped again
"""
