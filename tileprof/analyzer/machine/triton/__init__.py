"""Loops and values of a Triton kernel, by the text of its module (TTGIR)."""
