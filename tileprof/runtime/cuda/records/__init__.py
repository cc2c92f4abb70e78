"""Records and samples that kernels write while they run on a GPU.

In: arenas in device memory that warps write to.  Out: records and samples of each launch, in order,
for whoever listens.  `recorder` is what launches ask."""
