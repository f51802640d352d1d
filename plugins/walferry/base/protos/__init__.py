"""Contains the protobuf messages of HBase, HDFS and Spark Connect, and the only parser of messages from outside.

`hbase.proto` and `hdfs.proto` are written by hand after HBase's and Hadoop's own files. `hbase_pb2` and `hdfs_pb2` are generated
from them.

    parsing              parses protobuf messages from outside: from files, znodes and sockets
    spark_connect_pb2    messages of Spark Connect
"""
