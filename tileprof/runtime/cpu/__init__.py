"""Kernels on the processors of this machine.

In: a compiled kernel and host arrays.  Out: results, reports and samples.  `executable` is the
device; `pool` holds the threads that run blocks."""
