"""Reports what is wrong with the sources in section `[walferry]` of Airflow's configuration: as an import error.

These are names in option `sources` that cannot have DAGs, and what other options say for no source. This file has no DAG.
The other files have a DAG for each source whose name is right, whatever is wrong with the others.
"""

from __future__ import annotations

from walferry.airflow.sources import check_names, check_parts, configured

configured().check()
for option in ("replicate_schedule", "watch_schedule", "region_master_address"):
    check_parts(option, configured().names)
check_names("region_masters", configured().names)
