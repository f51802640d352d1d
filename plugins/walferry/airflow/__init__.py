"""Airflow's side. DAG files import from here, and must be parsed without kazoo, numpy or pyspark.

hooks, operators, sensors, triggers    Airflow's own kinds of classes
tasks                                  the DAGs' tasks and their wiring, with operators of single DAGs
forms                                  parameters: what is proposed, and what is checked
page                                   the replication page in Airflow's navigation
provider                               what Airflow is told of Walferry when pip has installed it
endings                                what the log of a failed task ends with, and which failures are tried again
run_notes, stats                       a run's note; metrics
timetables                             intervals for backfills, registered by plugins/walferry_plugin.py
literal                                tasks whose arguments are never templates
"""
