"""HBase's protobuf messages, and the one way to parse those that come from outside.

`hbase.proto` is written by hand from HBase's own files; `hbase_pb2` is generated from it. Imports nothing else of the library.
"""
