"""Runs jobs (walferry.base.jobs), and brings the library to the processes that run them.

submitted                   Spark that spark-submit started: this process is the driver
waiting                     a job and the task that waits for it, if they run on different machines
connect                     a Spark Connect server, and the client for it: the caller is the driver
workers                     processes of this machine, for the command
session_settings            Spark's settings for a job's environment
archive, archive_entry      the archive that executors import the library from
prebuild                    compiles the library's kernels beforehand
environment                 packs what executors need, for machines that have nothing of it
quick_start                 makes spark-submit start quickly
source                      a Spark data source for WALs
"""
