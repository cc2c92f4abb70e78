"""Wrong changes that `tileprof try` must refuse.

In: small programs (`programs`), mutated at every place where an operator of `mutations` applies.
Out: for each mutant whether its results are wrong, by plain differences in 64-bit floats, and
whether `tileprof try` would take them for those of the original; `results/wrong-changes.json`.
"""
