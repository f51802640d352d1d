"""The Spark jobs as operators, and their common base. The DAGs' tasks contain the operators of single DAGs.

links              links on tasks in Airflow's UI
ship_wals          the Spark job that ships one peer's backlog, or some of its WAL groups, as an operator
spark_job          the common base of the operators that run a job on Spark
"""
