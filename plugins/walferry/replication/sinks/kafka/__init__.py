"""Apache Kafka as the target: each cell becomes a record, and records and positions are written in one transaction.

    sink            implements the `sink` protocol: refuses earlier producers, and leaves out what Kafka has
    sender          sends requests as transactions
    records         a cell as a record: the Avro of HBase's Kafka proxy, or the envelope of Debezium
    positions       the topic that says up to where Kafka has the edits of each WAL group
    clients         the settings of Kafka's clients, and the errors that people see

Exactly once: a producer is named after the peer and the WAL group. When a batch begins, Kafka ends all that an earlier producer
of that name has begun, and refuses what it sends later. Only then the position is read, and edits before it are left out. So it
does not matter when a batch was killed, nor whether ZooKeeper knows of its last transactions. Readers see each edit once if they
read committed records (isolation.level=read_committed).
"""
