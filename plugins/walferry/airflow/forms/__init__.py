"""Parameters of runs: the values that a form proposes, the values that an operator typed, and the runs that are refused.

choices       the recovered queues that a form proposes
run_checks    checks in a run's first task, before anything is done, whether the run may begin
"""
