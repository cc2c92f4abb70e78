"""What the text of a Triton module, its TTGIR, says of a kernel: loops and values."""
