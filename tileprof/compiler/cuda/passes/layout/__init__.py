"""Layouts of fragments, shared buffers and parallel loops.

In: a launch whose instructions are chosen.  Out: every fragment, buffer and loop with its layout.
`layouts` is the pass; it builds a `graph`, has `solve` decide and `apply` write the decision."""
