"""The targets of edits. `sink` defines a sink's inputs and promises; each package here is one kind of sink.

`of_peer` makes the sink that a peer needs. It is the only module that names the kinds: all code above this package works with
`sink`, `errors` and `answers`, and does not know the form of a sink's requests. A kind of sink may import filters, files, tables
and what lies below them.

    changes    cells of WALs and HFiles as rows
    positions  up to where a target has the edits of a WAL group, if it keeps that itself
    tries      a sender's deadlines, pauses and reports

    hbase      another HBase cluster as the target
    kafka      topics of Kafka
    iceberg    tables of changes in a lake, for batches that commit their edits as files (walferry.shipping.lake)
"""
