"""How far a run is and what it did: as text for the log, as a dict for XCom, and as a verdict."""
