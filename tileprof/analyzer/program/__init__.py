"""Which part of a program's tree is its steady work: steps, and what compiles or tries variants.

In: a profile. Out: masks of nodes, times in ns.
"""
