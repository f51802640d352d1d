"""Compressed and encrypted WALs, turned into the bytes of plain ones.

compressed, expand, expand_key, expand_cell, passes    dictionaries in place of names: bytes into plain entries
dictionaries                                           the dictionaries themselves
values, blocks                                         compressed values
encrypted                                              encrypted cells
"""
