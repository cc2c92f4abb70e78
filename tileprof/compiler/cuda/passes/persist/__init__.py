"""Persistent blocks: the order in which blocks walk the grid, and loops over tiles.

In: a launch over a grid.  Out: a launch whose blocks take several tiles, dealt in advance or on
demand.  `persist` is the pass."""
