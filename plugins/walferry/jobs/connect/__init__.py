"""A small client of Spark Connect, for jobs that begin at once: it imports gRPC, and nothing of PySpark.

    connect_job  one job on a server, its backend, and the answers of its tasks
    tasks        the functions that workers run for the job
    server       one server's calls
    sessions     the session that jobs share, with the library in it
    execution    one job: sent, followed over lost connections, interrupted
    plan         messages of Spark Connect that run a function for a range of numbers
    probe        a small job, for checks
    errors       errors of a Spark Connect server

Using a session for the first time costs the server a Python daemon, which stays behind, and seconds. So all jobs with the same
version of the library share a session.
"""
