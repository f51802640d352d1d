"""Spark's side of the library: the archive that executors import it from, how a job's script ends, and a data source for WALs.

The data source imports files, wal and crypto. Only `airflow`, the scripts in spark_jobs and Spark itself import this package.
"""
