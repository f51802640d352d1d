"""The source cluster and how to reach it.

`cluster` describes the source cluster for a run, and `connection` reads this description from Airflow. `session` is a connected
client with the cluster's paths and files. `peers` reads the peers from where the cluster keeps them, and `agreement` checks that
the Master agrees.

    peer_state            the fence that a peer's state is: no write passes once the peer is enabled
    fields                reads an Airflow connection from the environment, as JSON or a URI
    logins                the login fields of a connection: our user or principal, and the requirements on the cluster's servers
    source_job            the fields that all jobs share
    peer_logins           the logins to the peer clusters, from their own connections
"""
