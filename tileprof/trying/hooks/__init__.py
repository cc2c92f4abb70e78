"""Changes as they are made in a running Python, before the program begins and without its files.

In: changes.  Out: patched libraries and functions, and a count of the places each has changed.
"""
