"""Deferrable sensors: new WALs, dead servers, stuck regions."""
