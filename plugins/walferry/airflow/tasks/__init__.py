"""The tasks of the DAGs: of a batch, of recoveries, of the choice of queues by hand, and the code that all tasks share.

batch               the tasks of a batch: peers → roll → for each peer plan → ship → report
checks              the task of the DAG that checks connections
common              the code that the tasks of all DAGs share; it keeps a run's reports for as long as the run exists
complete_hours      the task that announces hours that peer clusters have complete
handing_back        the tasks that hand a peer back to HBase: preview → approve → begin → ship → finish
initial_snapshot    the tasks of an initial snapshot
merging             the tasks that merge a lake's changes into its tables of state: peers → for each peer merge
quarantine          the tasks that give up the rest of a broken WAL: look → approve → permit → ship → check
recovery            the common tasks of the DAGs of recovery, and the tasks by which people choose recovered queues
region_master       the task that keeps the master's role of a cluster of HBase 1
regions             the tasks of the DAGs for regions of HBase 1: report → act → check, and preview → approve → start → …
replay              the tasks that ship an interval again: plan → ship → report
retention           the tasks of the retention DAG: report → check, and in parallel the archive's TTL
verification        the tasks of a verification: peers → for each peer compare → approve → repair → report
watch               the task of the watching DAG: look, send metrics, and notify people of what is wrong
"""
