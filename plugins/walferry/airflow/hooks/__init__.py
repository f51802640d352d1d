"""Connections: the source cluster, and spark-submit."""
