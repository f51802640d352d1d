"""Walferry: HBase replication moved off the RegionServers.

Imports go one way, from the top of this picture to its bottom, and packages of one line do not import each other:

    airflow, cli                                    the front ends: DAGs' tasks and pages; the command `walferry`
    runs, admin, observe                            what a run does and reports; what operators do; what they are shown
    jobs, replay, initial_snapshot, verification    Spark's jobs: a backlog, an interval again, a new peer's tables, comparison
    shipping                                        what a peer has queued, and how far it is shipped
    engine, load, master                            the loop that ships; files loaded into a slave; the master of HBase 1
    replication                                     the source, its queues, what of it a peer gets, and where that goes
    hbase                                           HBase's formats: znodes, WALs, HFiles, calls, keys, tables, files
    base                                            what all of these stand on; nothing here knows HBase

Each package says in its own `__init__` what lives there. `make lint` holds the code to this picture (pyproject.toml).
"""

__version__ = "0.1.0"
