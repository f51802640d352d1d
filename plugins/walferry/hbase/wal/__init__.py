"""WAL files: bytes become windows of entries, and entries become Arrow batches. Nothing here opens a file.

reader                                        a file as a series of windows, whether plain, encrypted or compressed
windows, bounds, torn                         windows, and where a file's entries end
header                                        the two ends of a file
scan, keys, cells, check, problems            entries, their parts, and what can be wrong with them
arrow, decoded_keys                           entries as columns
codecs                                        compressed and encrypted files
errors                                        what can be wrong with a file
"""
