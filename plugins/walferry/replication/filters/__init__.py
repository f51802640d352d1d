"""Which edits a peer gets, decided as HBase does: by scopes, tables and families, cluster ids, and visibility labels.

rules         a peer's choice of tables, and the reasons for leaving out edits
batch         the decision for each entry of a batch, in compiled code
visibility    cells with visibility labels
"""
