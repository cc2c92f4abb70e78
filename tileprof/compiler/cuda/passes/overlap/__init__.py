"""Overlap of the last product of an iteration with the arithmetic of the next one.

In: pipelined loops.  Out: a first iteration, a rotated loop, and the end of the last iteration.
`overlap` is the pass; `rotation` writes the loops."""
