"""Apache Iceberg as the target: each edit becomes rows of a table of changes, which is only ever appended to.

    data_files      writes changes as Parquet files, sorted, a file for each day
    typed_columns   adds typed columns to them, as the peer's mapping says
    typed_values    reads values that HBase's clients and Phoenix have written
    kinds           Iceberg's types of our columns
    tables          makes and checks tables of changes
    commits         appends files to a table, together with the positions up to which it then has all edits

Tasks write files, which nobody sees. The driver commits them, in one commit a table. A file that was never committed costs space
only, until Iceberg's own procedure for orphaned files deletes it.
"""
