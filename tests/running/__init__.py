"""How the tests are run: which of them, in what order, for how long, and what becomes of a failure.

quick           which tests `make test` runs
durations       how long each file of tests takes, as measured; `make durations` renews that
shards          parts of all files that take equally long
import_graph    which files a test stands on
order           in CI: first what a change touches, then another twelfth in each turn, then the rest
time_limit      no test begins after a given moment
second_tries    a test that fails may run again, and what is told of it
stalls, awake   a machine whose host takes its processors away
"""
