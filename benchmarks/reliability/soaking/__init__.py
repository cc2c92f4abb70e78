"""What threads do in a soak: see `benchmarks.reliability.soak`."""
