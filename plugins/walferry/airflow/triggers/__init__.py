"""What waits in the triggerer on ZooKeeper's watches. Airflow's database names these classes by their paths."""
