"""The source cluster: its Airflow connection, checked field by field, and whether its master agrees with its ZooKeeper."""
