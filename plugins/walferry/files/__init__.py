"""WALs where they lie: file systems (`systems`), finding one WAL that HBase moves (`store`) or many at once (`listing`), whether
a file is complete, quarantine, and the disk's space.
"""
