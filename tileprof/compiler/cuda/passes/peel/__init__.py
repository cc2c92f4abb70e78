"""Peeling: iterations that a mask does not change run in a loop without it.

In: pipelined loops with masks.  Out: loops one after the other, one of them without the mask.
`peel` is the pass; `masks` finds masks, `iterations` where they change nothing, `loops` writes."""
