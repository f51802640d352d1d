"""The steps of a batch and of a recovery. Each reads ZooKeeper afresh and may be run again at any time."""
