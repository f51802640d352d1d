"""Codecs of WAL entries: dictionaries, compressed values, encrypted cells. Each makes plain entries of what the file holds."""
