"""Rules that ask what the program of a tile kernel has to do: one file each.

In: a kernel with its program, launches and samples.  Out: drafts of findings.
"""
