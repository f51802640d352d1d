"""Keys of encrypted WALs, from Java's key stores, which are read without Java. No error here contains a key or a password.

This package imports only `protos` and `errors` of the library.
"""
