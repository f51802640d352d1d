"""What a run does and reports, whoever starts it: Airflow's tasks or the command. What needs Airflow here imports it when it
is called, and nothing here travels to Spark.

    airflow_connection    reads connections from where Airflow keeps them
    steps       what tasks do, before and after the Spark jobs
    input       what operators type, checked
    values      what tasks hand to each other, and its form as XComs
    reports     progress and reports: as text, as XComs, as verdicts
    failures    failures of several reasons, and reports in the log
"""
