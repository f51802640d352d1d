"""A run's progress and results: as text for the log, as a dict for XCom, and as a verdict.

batch           the results of a batch for one peer
progress        logs a Spark job's progress, in the task that waits for it
recovery        the results of a recovery of dead servers' queues: for people, for Airflow, and as a verdict
replay          the results of shipping an interval again: for the log, and for Airflow's database
verification    the results of a verification of one peer
"""
