"""WAL files: bytes become WAL batches of entries, and entries become Arrow batches. Nothing here opens a file.

reader                                        a file as a series of WAL batches, whether plain, encrypted or compressed
wal_batches, bounds, torn                     WAL batches, and where a file's entries end
header                                        the two ends of a file
scan, keys, cells, check, problems            entries, their parts, and the faults in them
arrow, decoded_keys                           entries as columns
codecs                                        compressed and encrypted files
errors                                        the errors of reading a file
"""
