"""Waits for asynchronous work, each at the first op that needs it.

In: matrix products and tiles stored by TMA.  Out: asynchronous ones, with waits and their counts.
`waits` is the pass; `groups` is what may be running at a place, `loops` asks whether loops wait."""
