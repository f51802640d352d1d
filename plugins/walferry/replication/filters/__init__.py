"""Which edits a peer gets, decided as HBase does: by scopes, tables and families, cluster ids, and visibility labels.

rules         a peer's choice of tables, and the reasons for leaving out edits
entry_filter  the decision for each entry of a WAL batch, in compiled code
phoenix       rows of Phoenix's catalog that belong to tenants
visibility    cells with visibility labels
"""
