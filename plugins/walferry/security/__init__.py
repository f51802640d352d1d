"""How Walferry proves who it is, and makes sure of whom it talks to: logins, Kerberos through GSSAPI, SASL, TLS.

Nothing here does I/O on sockets. `rpc`, `zk` and `files` carry the bytes; this package imports none of them.
"""
