"""Compiled primitives that the codecs share: how kernels are compiled and cached, what they read and write with.

Imports nothing else of the library.
"""
