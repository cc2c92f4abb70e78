"""Small kernels whose stalls are known, and what samples say of them."""
