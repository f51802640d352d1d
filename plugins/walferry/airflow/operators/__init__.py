"""The Spark jobs as operators, their base, and a question to a person. The DAGs' tasks contain the operators of single DAGs.

approval           asks a person before a run does what cannot be undone
lineage            tells OpenLineage what a job has read and written
links              links on tasks in Airflow's UI
made_together      lets tasks of peers whose files are made in one job find each other
run_batch          starts a batch of the run's peer, as an operator
ship_wals          the Spark job that ships one peer's backlog, or some of its WAL groups, as an operator
spark_job          the common base of the operators that run a job on Spark
"""
