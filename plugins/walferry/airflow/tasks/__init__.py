"""The tasks of the DAGs: those of a batch, of recoveries, of choosing queues by hand, and what all of them share.

batch               the tasks of a batch: peers → roll → for each peer plan → ship → report
checks              the task of the DAG that checks connections
common              what the tasks of all DAGs share, and what a run has reported, kept for as long as the run exists
initial_snapshot    the tasks of an initial snapshot
recovery            what the DAGs of recovery have in common, and the tasks by which people choose recovered queues
regions             the tasks of the DAGs for regions of HBase 1: report → act → check, and start → report → check
replay              the tasks that ship an interval again: plan → ship → report
retention           the tasks of the retention DAG: report → check, and beside them the archive's TTL
verification        the tasks of a verification: peers → for each peer compare, and beside it clocks → report
watch               the task of the watching DAG: look, send metrics, and tell of what is wrong
"""
