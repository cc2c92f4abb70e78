"""Planted regressions for `tileprof bisect`: kernels, edits with their true first level, and how
sides are made of them.

In: nothing.  Out: `Plant`s, frozen, and `Null`s: edits that change nothing that a GPU runs.
"""
