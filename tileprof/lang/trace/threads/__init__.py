"""Work of single threads and roles of warps, as the tile program that they amount to.

In: the traced body of a launch, the values that stand for the numbers of its threads.  Out: a body
without them.  `barriers` checks roles against the order of the program, and `slots` lets their
loads run ahead; `differences` finds what differs between threads, `known` what a value is for each,
`postponed` keeps values until they are used, and `distribution` makes the new body.
"""
