"""What all else stands on, and what knows nothing of replication.

errors, texts, amounts    what errors say; text from outside, made harmless; numbers for people
findings                  what was looked at, how it is, and what to do about it
jobs                      what a job is, and what runs its functions side by side
records                   records as JSON, read with limits
hosts, users              names of hosts; who runs this process
closing, periodic         what ends with a block: what is closed, and what is done every few seconds beside the work
zk, security              a ZooKeeper client whose calls end; logins: Kerberos, SASL, TLS
protos, kernels           messages of HBase, HDFS and Spark Connect; compiled passes over bytes
"""
