"""ZooKeeper: a client whose calls always end (`client`), its logins, TLS and bounds (`secured`, `login`), the owners of its
znodes (`acls`), a lock that fences its holder's writes (`fenced_lock`), and watches for an event loop (`watcher`).

Nothing here knows HBase's znodes: see `hbase`.

    errors          errors about a ZooKeeper ensemble, whatever data it stores
    records         records in znodes: put, updated by version, written under a fence, and read with care
    fenced_lock     a right with one holder at a time. Only the holder can write under it
    right           the right to send requests that change another cluster, for as long as its holder surely has it
    watched_children    lists of children, each read again only after its watch has fired
    session_time    for how long a client's session surely goes on, as far as the client itself can know
"""
