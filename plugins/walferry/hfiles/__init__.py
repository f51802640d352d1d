"""HFiles of a WAL's edits: cells become sorted runs, runs are merged, and what they give is written as a file of HBase.

    runs, stores, sorting     windows of WALs → sorted runs, one store of the slave each
    cutting                   a run → the shares of it that regions have after a split of the slave's region
    merge, order              runs of one store → one series of cells
    writer, settings          cells → a file, as the slave's family says
    filling, encodings        its data blocks, in compiled code
    blocks, checksums, compression, index, bloom, keys, metadata      its other parts
    cells                     the layout and the order of cells, which all of these share

Nothing here opens a file or knows of Spark: runs come as buffers or as open files. This package imports `wal`, `filters` and
`hbase` of the library, and what these import.
"""
