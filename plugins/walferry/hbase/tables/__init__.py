"""Reads a cluster's tables through its RegionServers.

tables     a cluster's tables: their regions, and scans
regions    regions, and their servers in hbase:meta
scan       a scan across regions, which outlives moves, splits, merges and lost scanners
mutations  changes of rows that depend on what they contain
barriers   when a region was opened anew, and what it was made of, for serial replication
rows       cell blocks as rows of cells
snapshots  a snapshot's regions with their files, and where these lie
errors     the errors of reading a table, or a snapshot of it
"""
