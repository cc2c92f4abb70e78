"""A generator of defects: operators that change kernels' sources, and what became of them.

- `families`: kernels that exist for other reasons, with inputs and results; `tile_kernels` and
  `triton_kernels` hold those written for this benchmark.
- `programs`: a source, its syntax tree, and edits at nodes of it.
- `tile_operators`, `triton_operators`, `triton_orders`, `decoys`: from a program to the sites where
  an operator applies, and from a site to edits.
- `causes`: what is right to say of an operator's defect.
- `mutants`: a family, an operator and a site make a mutant.
- `problems`, `triton_problems`: inputs of families, and their results in float64.
- `drawing`: a seed deals families and operators to development and test, and picks sites.
- `freezing`: hashes of mutants and of the analyzer.
- `dry_running`: Triton cases are compiled and interpreted without a GPU.
- `running`, `reading`: a GPU measures; then findings are laid beside the truth.
- `scoring`: scores by split, pooled over all of them, and beside baselines.
- `calibrating`: factors by which intervals of gains hold as often as they say.
- `tile_rewrites`, `tile_problems`: operators on tile kernels, and problems of such, that came after
  the first test split.
- `later`: families' extents, problems and operators that came after the second test split.
- `fresh`: those that came after the third; `fifth`: after the fourth; `sixth`: after the fifth;
  `seventh`: after the sixth; `eighth`: after the seventh.
"""
