"""WAL files: bytes become windows of entries, and entries become Arrow batches. Nothing here opens a file.

    header, scan, reader, torn      the two ends of a file, its entries, windows of them, and how an unfinished file ends
    keys, columns, arrow            entries as columns
    codecs                          compressed and encrypted files

Stands on `kernels`, `protos` and `names` only.
"""
