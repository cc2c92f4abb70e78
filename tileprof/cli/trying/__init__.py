"""`tileprof try`: changes of a program tried one by one, and the ledger of trials.

In: arguments.  Out: text or JSON, and exit codes.
"""
