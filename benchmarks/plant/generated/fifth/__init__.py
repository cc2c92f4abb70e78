"""Material of the fifth test split: kernels, problems and operators that came after the fourth.

- `extents`: families' names, their extents on a GPU and on a processor, and formulas.
- `tile_problems`, `triton_problems`: inputs, and results in float64.
- `tile_operators`, `triton_operators`: from a program to sites, as earlier operators have them;
  `operators` has all of them, and those that both languages share.
"""
