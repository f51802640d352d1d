"""The targets of edits. `sink` defines a sink's inputs and promises; each package here is one kind of sink.

`of_peer` makes the sink that a peer needs. It is the only module that names the kinds: all code above this package works with
`sink`, `errors` and `answers`, and does not know the form of a sink's requests. A kind of sink may import filters, files, tables
and what lies below them.

    hbase      another HBase cluster as the target
    iceberg    tables of changes in a lake, for batches that commit their edits as files (walferry.shipping.lake)
"""
