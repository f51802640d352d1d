"""Where edits go. `sink` says what a sink is given and what it must keep; each package here is one kind of sink.

`of_peer` makes the sink that a peer needs. It is the only module that names the kinds: everything above this package works with
`sink`, `errors` and `answers`, and does not know what a sink's requests look like. A kind of sink may import filters, files,
tables and what lies below them.

    hbase    another HBase cluster as the target
"""
