"""The Spark jobs as operators."""
