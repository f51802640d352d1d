"""The steps and reports of a run, whether Airflow's tasks or the command started it. Code that needs Airflow imports it when it
is called, and no code here travels to Spark.

    airflow_connection    reads connections from where Airflow keeps them
    steps       the work of tasks, before and after the Spark jobs
    input       checks of the values that operators type
    values      the values that tasks pass to each other, and their form as XComs
    reports     progress and reports: as text, as XComs, as verdicts
    failures    failures with several reasons, and reports in the log
"""
