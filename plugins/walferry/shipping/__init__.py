"""Shipping a WAL group: what there is to do (`plan`), the loop (`group`), its connections (`lanes`), positions and figures."""
