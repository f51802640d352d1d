"""Spark's side of the library: how functions of it get to a cluster, and what drivers and workers run there.

archive, archive_entry      the archive that executors import the library from
environment, quick_start    what a job gets of the environment; how spark-submit begins quickly
job                         how a job's script ends
ship_run, ship_tasks        the job that ships a peer's queues; what its tasks run
load_spread, load_tasks     a load as files, over Spark's shuffle
load_note, load_progress    how far it is
connect_ship, connect       the same through a Spark Connect server, and the client for that
source                      a data source for WALs
"""
