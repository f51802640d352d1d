"""Turns compressed and encrypted WALs into the bytes of plain WALs.

compressed, expand, expand_key, expand_cell, passes    compressed entries into plain ones
dictionaries                                           the dictionaries themselves
values, blocks                                         compressed values
encrypted                                              encrypted cells
"""
