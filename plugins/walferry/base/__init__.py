"""The foundation of all other packages. Nothing here knows of replication.

errors, texts, amounts    the base class of errors; text from outside, made harmless; amounts for people
findings                  the checked thing, its state, and what to do about it
jobs                      jobs, and the backends that run their functions side by side
records                   records as JSON, read with limits
hosts, users              reachable servers; the user of this process
closing, periodic         things that end with a block: objects to close, and calls every few seconds
zk, security              a ZooKeeper client whose calls end; logins: Kerberos, SASL, TLS
protos, kernels           messages of HBase, HDFS and Spark Connect; compiled passes over bytes
"""
