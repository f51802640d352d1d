"""The Spark jobs as operators.

connect_job        a job that a task has a Spark Connect server run, instead of starting Spark for it
copy_tables        the Spark job that copies a new peer's tables, and the batch that then ships its queue, as operators
links              links on tasks in Airflow's UI
replay_interval    the Spark job that ships an interval again, as an operator
ship_wals          the Spark job that ships one peer's backlog, or some of its WAL groups, as an operator
spark_job          what the operators that run a job on Spark have in common
verify_peer        the Spark job that compares a peer's tables, as an operator
"""
