"""Parameters of runs: what a form proposes, what an operator typed, which runs are refused."""
