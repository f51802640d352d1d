"""Which edits a peer gets, as HBase decides it: scopes, tables and families, cluster ids, visibility labels."""
