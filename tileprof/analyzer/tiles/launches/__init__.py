"""Launches of one tile program that could be fewer, or do less.

In: a kernel's program (`TileKernel`). Out: launches that only cut a grid into parts, pairs that
hand a tensor over, and writes that nothing needs, each with its lines and bytes.
"""
