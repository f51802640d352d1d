"""The Spark job as an operator."""
