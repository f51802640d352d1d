"""The steps of DAGs that have no Spark job. Each reads afresh, and may be run again at any time.

regions      looks, acts, and starts a cluster of HBase 1 whose HMaster does not start
retention    surveys oldWALs, and deletes copies in the archive whose time is over
watch        one look at the source, for the watching DAG
"""
