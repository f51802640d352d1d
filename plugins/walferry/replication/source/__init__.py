"""The source cluster and how to reach it.

`cluster` is what a run knows of it, and `connection` reads that from Airflow. `session` is a connected client with the cluster's
paths and files. `agreement` checks that the Master and ZooKeeper agree on the peers.

    fields                reads an Airflow connection as the environment has it, JSON or a URI
    logins                the fields of a connection that say as whom a cluster is talked to, and what is demanded of its servers
    source_job            what all jobs have in common
    slaves                as whom the slaves are talked to, by connections of their own
"""
