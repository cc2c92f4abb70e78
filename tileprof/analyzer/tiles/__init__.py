"""What a tile kernel's program says: its work, what lies outside of tensors, loops, traffic.

In: text, and numbers of the device. Out: bytes, shares, lines. Nothing was measured here.
"""
