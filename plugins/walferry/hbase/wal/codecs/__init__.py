"""Turns compressed and encrypted WALs, and those of Phoenix, into the bytes of plain WALs.

compressed, expand, expand_key, expand_cell, passes    compressed entries into plain ones
dictionaries                                           the dictionaries themselves
values, blocks                                         compressed values
encrypted                                              encrypted cells
phoenix                                                cells of Phoenix's codec, which may be index entries
"""
