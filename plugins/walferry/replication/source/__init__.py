"""The source cluster and how to reach it.

`cluster` describes the source cluster for a run, and `connection` reads this description from Airflow. `session` is a connected
client with the cluster's paths and files. `agreement` checks that the Master and ZooKeeper agree on the peers.

    fields                reads an Airflow connection from the environment, as JSON or a URI
    logins                the login fields of a connection: our user or principal, and the requirements on the cluster's servers
    source_job            the fields that all jobs share
    peer_logins           the logins to the peer clusters, from their own connections
"""
