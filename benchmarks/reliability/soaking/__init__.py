"""Workloads of a soak's threads, on a GPU and on a played CUPTI (`benchmarks.reliability.soak`)."""
