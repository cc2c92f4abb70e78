"""The calling-context tree: columns of nodes, built while a program runs, then never changed.

In: symbols and values of nodes.  Out: a `Profile` with its tree, checks of its
laws, and summaries."""
