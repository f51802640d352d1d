"""A small client of Spark Connect, for jobs that begin at once: it imports gRPC, and nothing of PySpark.

    connect_job  one job on a server, its backend, and what its tasks have sent back
    tasks        what workers run of it
    server       one server's calls, and its errors
    sessions     the session that is used again and again, with the library in it
    execution    one job: sent, followed over lost connections, interrupted
    plan         a function that runs for each of some numbers, as Spark Connect's messages say it
    errors       what can be wrong with a Spark Connect server

A session that is used for the first time costs the server a Python daemon and seconds, and leaves the daemon behind. So all jobs
with the same version of the library share a session.
"""
