"""Keys of encrypted WALs, from Java's key stores, which are read without Java. No error here contains a key or a password.

java_objects    serialized Java objects, as far as key stores contain them
jceks           reads the secret keys of a JCEKS key store, Java's own format, as SunJCE's JceKeyStore writes it
pkcs12          reads the secret keys of a PKCS12 key store as Java writes it (sun.security.pkcs12.PKCS12KeyStore, RFC 7292)
provider        the cluster's key provider, and its file of passwords: Java's properties
"""
