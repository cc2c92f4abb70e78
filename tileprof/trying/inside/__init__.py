"""What runs in a process of the program: counting steps, keeping results, answering who times it.

In: orders from the process that tries a change.  Out: messages about the program's progress, and a
file with its results.
"""
