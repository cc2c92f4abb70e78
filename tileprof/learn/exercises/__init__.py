"""The puzzles, a module each: task, specification, starter, hidden cases, conditions and hints.

In: what `exercise`, `judges` and `conditions` offer.  Out: `EXERCISE` of each module.
"""
