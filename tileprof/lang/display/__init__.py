"""Text of kernels for prompts and notebooks."""
