"""Placement of records and marks in a kernel.

In: a kernel after all passes.  Out: the same kernel with records (CPU) or marks (GPU) around its
sites.  `insertion` serves the CPU, `placing` GPUs."""
