"""WALs where they lie: remote file systems, finding a file that HBase moves, whether it is complete, and quarantine."""
