"""Spark's side: the library as an archive for executors, and WALs as a data source."""
