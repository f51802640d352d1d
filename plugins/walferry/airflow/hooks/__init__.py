"""Connections: the source cluster, and spark-submit.

hbase            the source cluster as an Airflow connection
spark            spark-submit as this project runs it
spark_connect    a Spark Connect server as an Airflow connection of the Spark provider's type `spark_connect`
spark_output     the output of spark-submit: the level of each log line, and why a job failed
"""
