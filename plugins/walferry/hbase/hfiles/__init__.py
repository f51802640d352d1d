"""Makes HFiles of a WAL's edits: sorts cells into runs, merges the runs, and writes the result as a file of HBase. Also reads
HFiles.

    stores, sorting                 the peer cluster's stores, and WAL batches in their order
    cutting                         a run → the regions' shares of it, after a split of the peer cluster's region
    merge                           runs of one store → one series of cells
    writer, settings                cells → a file with the settings of the peer cluster's family
    filling, encodings              the file's data blocks, in compiled code
    blocks                          frames of blocks: compression and checksums
    index, bloom, keys, metadata    the file's other parts
    cells                           the layout and the order of cells, which all of these share
    ends                            recognizes a moved file by its size and the bytes at its end
    opened, decoding                a file's metadata and blocks; the cells in its data blocks
    file_cells                      the cells of a range of rows, a piece at a time
    arrow                           cells → columns
    errors                          the errors in the input of HFiles, and in files that are read

Nothing here opens a file or knows of Spark: runs come as buffers or as open files.
"""
