"""The steps of a run before and after a Spark job. Each reads ZooKeeper again, and may be run again at any time.

batch               chooses what to ship, plans it, and waits for what other runs hold
recovery            recovers dead servers' queues
replay              plans an interval that is shipped again
"""
