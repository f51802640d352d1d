"""The Airflow integration. DAG files import from here, and must be parsed without kazoo, numpy or pyspark.

hooks, operators, sensors, triggers    Airflow's own kinds of classes
tasks                                  the DAGs' tasks and their wiring, and the operators that only one DAG uses
forms                                  parameters: the values that forms propose, and their checks
page                                   the replication page in Airflow's navigation
sources, source_dags                   the sources of Airflow's configuration, and the DAGs that each of them gets
options                                what Walferry reads from Airflow's configuration
provider                               the description of Walferry that Airflow reads when pip has installed it
endings                                the last log line of a failed task, and which failures are tried again
states                                 how other tasks of a run stand
run_notes, stats                       a run's note; metrics
timetables                             intervals for backfills, registered by plugins/walferry_plugin.py
literal                                tasks whose arguments are never templates
preload                                imports what tasks need, for the processes that fork them
"""
