"""Ships a feed of entries through a sink, in order, and commits the position up to which they are acknowledged.

    feed                 both ends of a run (protocols): a feed, which yields batches of entries, WAL after WAL; and a commit,
                         which keeps the low watermark
    senders              send requests in order, side by side; hold the requests that wait for a sender
    in_flight            the requests under way, and the low watermark: everything before it is acknowledged
    run                  feed → filter → senders → in flight → commit, under one supervisor
    outcome              why a run ends
    bandwidth            limits the bytes sent per second
    counters, summary    the figures
    gauges               figures of the summary that are looked up now and then, not counted

A new way to queue WALs needs a feed and a commit. A new target needs a sink, and a commit of its own if positions become durable
together with the data.
"""
