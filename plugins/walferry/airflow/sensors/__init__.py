"""Deferrable sensors: new WALs, dead servers."""
