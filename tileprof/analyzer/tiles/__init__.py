"""Facts of a tile kernel's program: its work, loops, traffic, and padding outside of tensors.

In: text, and numbers of the device. Out: bytes, shares, lines. Nothing was measured here.
"""
