"""Compiled primitives that the codecs share: compiling and caching kernels, and what kernels read and write with.

This package imports nothing else of the library.
"""
