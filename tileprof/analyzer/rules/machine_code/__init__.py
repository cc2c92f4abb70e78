"""Rules that ask machine code what a tile's shape costs, where no program tells of tiles.

In: a kernel with its code, samples, launches and work.  Out: drafts of findings.
"""
