"""Gets the keys of encrypted WALs from Java's key stores, without Java. No error here contains a key or a password.

jceks           reads the secret keys of a JCEKS key store, Java's own format, as SunJCE's JceKeyStore writes it
pkcs12          reads the secret keys of a PKCS12 key store as Java writes it (sun.security.pkcs12.PKCS12KeyStore, RFC 7292)
provider        the cluster's key provider, and its file of passwords: Java's properties
"""
