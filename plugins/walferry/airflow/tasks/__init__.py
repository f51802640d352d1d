"""Tasks that several DAGs share."""
