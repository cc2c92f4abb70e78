"""Code that runs in a process of the program: counts steps, keeps results, answers who times it.

In: orders from the process that tries a change.  Out: messages about the program's progress, and a
file with its results.
"""
