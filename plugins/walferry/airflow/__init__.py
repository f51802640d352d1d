"""Airflow's side. DAG files import from here, and must be parsed without kazoo, numpy or pyspark.

    hooks, operators, sensors, triggers    Airflow's own kinds of classes
    steps                                  what tasks do, without Airflow
    tasks                                  the DAGs' tasks and their wiring
    forms                                  parameters: what is proposed, and what is checked
    page                                   the replication page in Airflow's navigation
    reports                                progress and reports, as text and as XCom
    values                                 what tasks hand to each other, and its form as XComs
    endings, failures, retries             what the log of a failed task ends with, and which failures are tried again
    run_notes                              what a run did, as its note
    timetables                             intervals for backfills, registered by plugins/walferry_plugin.py
    literal                                tasks whose arguments are never templates
"""
