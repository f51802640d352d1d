"""Spark's side of the library: the archive that executors import it from, and a data source for WALs.

The data source imports files, wal and crypto. Only `airflow` and Spark itself import this package.
"""
