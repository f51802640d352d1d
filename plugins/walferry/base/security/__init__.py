"""Proves Walferry's identity, and checks the other side's: logins, Kerberos through GSSAPI, SASL, TLS.

Nothing here does I/O on sockets: the caller transfers the bytes.

    digest       SASL DIGEST-MD5 without I/O (RFC 2831), the client's side, with qop auth
    gssapi       Kerberos through the system's GSSAPI library (RFC 2744)
    keytab       reads which principals have keys in a keytab. It skips the keys themselves
    login        logins: Walferry's identity at a cluster, and the proof that it demands of the cluster's servers
    pieces       cuts outgoing bytes into pieces that are protected one by one
    sasl         SASL's GSSAPI mechanism, as a client (RFC 4752). It has no I/O: tokens in, tokens out
    tickets      tickets for single servers, in credential caches of their own, for a library that logs in by itself
    tls          TLS without I/O
    waiting      limits the wait for library calls without a time limit
"""
