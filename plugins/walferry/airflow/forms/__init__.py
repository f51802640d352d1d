"""Parameters of runs: what a form proposes, what an operator typed, which runs are refused.

choices       the recovered queues that a form proposes
run_checks    checks whether a run may begin, in its first task, before anything is done
"""
