"""What prompts and notebooks show of kernels."""
