"""The tasks of the DAGs: those of a batch, of recoveries, of choosing queues by hand, and what all of them share."""
