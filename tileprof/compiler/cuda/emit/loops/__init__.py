"""Parallel loops as CUDA text: points, registers and vectors of one thread.

In: laid-out parallel loops.  Out: statements for the points that one thread runs, as wide accesses
where that is possible."""
