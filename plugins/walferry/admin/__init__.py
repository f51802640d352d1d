"""What an operator does with peers: create, take over, hand back, remove, look. The command line is `walferry.__main__`."""
