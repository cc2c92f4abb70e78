"""Work of single threads and roles of warps, as the tile program that they amount to.

In: the traced body of a launch, the values that stand for the numbers of its threads.  Out: a body
without them.  `differences` finds what differs between threads, `known` what a value is for each,
`distribution` makes the new body.
"""
