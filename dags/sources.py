"""Reports names in option `sources`, section `[walferry]` of Airflow's configuration, that cannot have DAGs: as an import error.

This file has no DAG. The other files have a DAG for each source whose name is right, whatever is wrong with the others.
"""

from __future__ import annotations

from walferry.airflow.sources import configured

configured().check()
