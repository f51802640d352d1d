"""`python -m demo`: two real HBase clusters, Airflow, and edits that get from one to the other.

__main__.py              the steps, from top to bottom
airflow_standalone.py    an Airflow of its own with this repo's dags and plugins, and its API
site.py                  the two clusters
edits.py                 what is written: the tables and two rounds of edits
outcome.py               comparing both sides, and the tables that are printed
commands.py              the command `walferry` and Airflow's, as an operator of the demo calls them
faults.py                what can be broken while the demo runs, and mended again
control.py, state.py     how the scripts below reach the running demo

Scripts for the running demo, `python -m demo.NAME`; docs/demo.md says what to look at:

kill_server.py, stop_peer_cluster.py, break_wal.py, spoil_position.py, fall_behind.py, drop_table.py, forget_peer.py
                         break something; --undo mends it
write.py                 writes some rows to the source
compare.py               compares both sides now
run.py                   runs a command, such as `walferry status`, on the demo's clusters and Airflow
"""

from __future__ import annotations

import sys
from pathlib import Path

# `make demo` and the scripts run from a checkout, where the library is not installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugins"))
