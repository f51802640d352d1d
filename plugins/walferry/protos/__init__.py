"""HBase's protobuf messages, and the one way to parse messages from outside.

`hbase.proto` is written by hand after HBase's own files, and `hbase_pb2` is generated from it. This package imports nothing else
of the library.
"""
