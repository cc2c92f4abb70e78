"""Kernels on NVIDIA GPUs through the CUDA driver.

In: a compiled kernel and arrays of any framework.  Out: launches on the caller's stream.
`executable` is the device; `records` reads what kernels write about their inside."""
