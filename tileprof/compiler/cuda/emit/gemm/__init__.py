"""Matrix products as CUDA text: fma, mma.sync and wgmma.

In: products with an instruction and laid-out operands.  Out: statements.  `common` holds what all
instructions share."""
