"""Ships a feed of entries through a sink, in order, and commits how far that is acknowledged.

    feed                 what is shipped: batches of entries, WAL after WAL (a protocol), and the thread that reads it
    senders              requests in order, side by side, and what waits for one of them
    in_flight            the requests under way, and so the low watermark: how far everything is acknowledged
    commit               where it is kept how far that is (a protocol)
    run                  feed → filter → senders → in flight → commit, under one supervisor
    outcome              why a run ends
    bandwidth            how much is sent a second
    counters, summary    the figures
    gauges               figures of the summary that are looked up now and then and not counted

A new way to queue WALs is a feed and a commit; a new target is a sink, with a commit of its own if positions become durable with
the data.
"""
