"""Spark's side of the library.

    archive, archive_entry   the archive that executors import the library from
    job, quick_start         how a job's script ends, and how spark-submit begins quickly
    ship_run                 the job that ships a peer's queues, however it gets to Spark
    connect_ship, ship_tasks, connect/      the same through a Spark Connect server: driver, tasks, client
    source                   a data source for WALs

ship_run imports shipping, bootstrap and what lies below; the data source imports files, wal and crypto. Only `airflow`, the
scripts in spark_jobs and Spark itself import this package.
"""
