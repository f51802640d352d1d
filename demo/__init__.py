"""`python -m demo`: two real HBase clusters, Airflow, and edits that get from one to the other.

__main__.py   the steps, from top to bottom
airflow.py    an Airflow of its own with this repo's dags and plugins, and its API
edits.py      what is written: the tables and two rounds of edits
outcome.py    comparing both sides, and the tables that are printed
"""
