"""Families, problems and operators of the eighth test split.

- `tile`, `triton`: its kernels.
- `extents`: names, extents and formulas of its families.
- `tile_problems`, `triton_problems`: their inputs, and their results in float64.
- `tile_operators`, `triton_operators`: what code reviews find, as operators.
- `operators`: all of them.
"""
