"""Reads a cluster's tables through its RegionServers.

tables     a cluster's tables: their regions, and scans
regions    regions, and where hbase:meta says they are
scan       a scan across regions, which outlives moves, splits, merges and lost scanners
rows       cell blocks as rows of cells
errors     what can go wrong while a table is read
"""
