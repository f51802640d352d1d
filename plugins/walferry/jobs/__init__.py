"""What runs jobs (walferry.base.jobs), and how the library gets there.

submitted                   Spark that spark-submit started: this process is the driver
connect                     a Spark Connect server, and the client for it: the caller is the driver
workers                     processes of this machine, for the command
session_settings            Spark's settings for a shuffle of ours, and for a job's environment
archive, archive_entry      the archive that executors import the library from
quick_start                 how spark-submit begins quickly
source                      a data source for WALs
"""
