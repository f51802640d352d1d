"""The Spark jobs as operators, and what all of them have in common; those of a single DAG are among its tasks.

links              links on tasks in Airflow's UI
ship_wals          the Spark job that ships one peer's backlog, or some of its WAL groups, as an operator
spark_job          what the operators that run a job on Spark have in common
"""
