"""How a source's replication stands, for pages, commands and metrics: lag, backlog, the runs that hold it, and findings.

    statuses                      the statuses of sources, kept for seconds; callers that show a status begin here
    model                         the fields of a status
    ages                          an age, and how certain it is
    view                          one pass over ZooKeeper
    notes                         the runs' notes in ZooKeeper
    files                         sizes of WALs, and when waiting edits were written
    peer_clusters                 whether peer clusters can be reached
    valid_through                 the time up to which a peer cluster has all edits
    history                       samples of the last day, and the functions that add to them
    describing                    makes a status of all these; it reads nothing
    words                         a status for people
    findings                      the problems that a status shows
    notified                      the findings to notify people of now
    measures                      a status as metrics, also for Prometheus
    cached                        makes a value once for many viewers

No code here raises for problems outside: a status says what is not known, and why. Only `history` writes, and only its own
znodes.
"""
