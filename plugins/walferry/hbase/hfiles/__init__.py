"""HFiles of a WAL's edits: cells become sorted runs, runs are merged, and what they give is written as a file of HBase.

    stores, sorting                 the slave's stores, and windows of WALs in their order
    cutting                         a run → the shares of it that regions have after a split of the slave's region
    merge, order                    runs of one store → one series of cells
    writer, settings                cells → a file, as the slave's family says
    filling, encodings              its data blocks, in compiled code
    blocks                          how blocks are framed: compressed, and with checksums
    index, bloom, keys, metadata    its other parts
    cells                           the layout and the order of cells, which all of these share
    ends                            by what a file is known again once somebody has moved it: its size, and the bytes at its end
    errors                          what can be wrong with what HFiles are made of

Nothing here opens a file or knows of Spark: runs come as buffers or as open files.
"""
