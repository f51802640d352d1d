"""Walferry: HBase replication moved off the RegionServers.

Imports go one way, from the top of this picture to its bottom, and packages on one line do not import each other:

    airflow, cli                                    the front ends: DAGs' tasks and pages; the command `walferry`
    runs, admin, observe                            the steps and reports of runs; operators' changes; what operators see
    jobs, replay, initial_snapshot, verification    how jobs run; an interval again; a new peer's tables; comparing tables
    state_tables                                    a lake's tables as HBase's are now, merged from its tables of changes
    shipping                                        a peer's queued WALs: which ones to ship, and how far they are shipped
    engine, load, master                            the loop that ships; files loaded into a peer cluster; the master of HBase 1
    replication                                     the source, its queues, the edits that a peer gets, and their sinks
    hbase                                           HBase's formats: znodes, WALs, HFiles, calls, keys, tables, files
    base                                            the foundation of all other packages; nothing here knows HBase

Each package's own `__init__` describes its modules. `make lint` holds the code to this picture (pyproject.toml).
"""

__version__ = "0.1.0"
