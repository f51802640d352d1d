"""Keys of encrypted WALs: key stores of Java, read without Java. No error here holds a key or a password."""
