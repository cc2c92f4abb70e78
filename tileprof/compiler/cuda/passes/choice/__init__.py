"""Choice of an instruction for each matrix product and each copy of a tile.

In: a launch with tile ops.  Out: the same ops with their instruction, and remarks with the reason
why no faster one fits."""
