"""How replication of a source stands, for pages, commands and metrics: lag, what is left, what holds it, and what is wrong.

    statuses                      the statuses of sources, kept for seconds; whoever shows one begins here
    model                         what a status has
    ages                          an age, and how certain it is
    view                          one pass over ZooKeeper
    notes                         what runs have noted there
    files                         sizes of WALs, and when waiting edits were written
    slaves                        whether slaves can be reached
    history                       samples of the last day, and what adds to them
    describing                    makes a status of all that; it reads nothing
    words                         a status for people
    findings                      what is wrong, as a status tells it
    notified                      of which of it to notify people now
    measures                      a status as metrics, also for Prometheus
    cached                        one making for many viewers

Nothing here raises for what is wrong outside: a status says what is not known, and why. Only `history` writes, and only its own
znodes.
"""
