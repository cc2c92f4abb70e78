"""Loads that run ahead of their use.

In: pipelined loops with loads.  Out: a producer role with rings of slots (`roles`, `split`,
`late_slots`), or groups of cp.async (`grouped_copies`, `first_loads`, `gathers`).  `pipeline` is
the pass; `slots` writes the uses of tiles anew for both."""
