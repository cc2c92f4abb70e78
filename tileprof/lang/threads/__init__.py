"""Functions for single threads and warps, as a kernel's author calls them.

In: numbers, values and barriers of a kernel.  Out: calls of the current context, which turns them
into tile operations (`tileprof.lang.trace.threads`).
"""
