"""Accounting of jobs: a record of each attempt, kept in the store until the ledger has it."""
