"""Rewriting of a kernel's Python function so that its control flow can be traced.

In: the author's function.  Out: a function whose names, branches and loops go through the active
context."""
