"""How Walferry proves who it is, and makes sure of whom it talks to: logins, Kerberos through GSSAPI, SASL, TLS.

Nothing here does I/O on sockets: whoever uses it carries the bytes.

    digest       SASL DIGEST-MD5 without I/O (RFC 2831), the client's side, with qop auth
    gssapi       Kerberos through the system's GSSAPI library (RFC 2744)
    keytab       reads which principals a keytab has keys of. The keys themselves are skipped
    login        logins: as whom Walferry talks to a cluster, and what it demands of the cluster's servers
    pieces       cuts what is sent into pieces that are protected one by one
    sasl         SASL's GSSAPI mechanism, as a client (RFC 4752). It has no I/O: tokens in, tokens out
    tickets      tickets for single servers, in credential caches of their own, for a library that logs in by itself
    tls          TLS without I/O
    waiting      waits for calls of libraries that cannot be given a time
"""
