"""Airflow's side. DAG files import from here, and must be parsed without kazoo, numpy or pyspark.

    hooks, operators, sensors, triggers    Airflow's own kinds of classes
    steps                                  what tasks do, without Airflow
    tasks                                  the tasks that DAGs share
    forms                                  parameters: what is proposed, and what is checked
    reports                                progress and reports, as text and as XCom
    literal                                tasks whose arguments are never templates
"""
