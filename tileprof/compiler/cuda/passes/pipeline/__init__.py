"""Loads that run ahead of their use.

In: pipelined loops with loads.  Out: a producer role with rings of slots (`roles`, `split`), or
groups of cp.async (`grouped_copies`).  `pipeline` is the pass."""
