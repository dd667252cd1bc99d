"""The common world of the tests without I/O: real machines, on one clock, with one network between
them.

| module | contents |
|---|---|
| `clock.py` | the clock, which the test sets |
| `network.py` | messages on their way: delivered, lost, repeated or overtaken as the test says |
| `store.py` | the head's journal and its ledger of attempts |
| `head.py` | heads, and requests to them |
| `node.py` | nodes with real bundle tables, and nodes whose members also run |
| `cluster.py` | a head and its nodes: the world of most tests |
"""
