"""The analyzer's numbers: facts of devices, what kernels were measured to reach, thresholds.

Each says its unit, its meaning and its source.  "An H200" is the one on which PLANT's kernels ran
(`benchmarks/results`, recorded in October and November 2026); a judgement without a measurement
says "by hand", and so is every threshold that names no source.  A wrong number makes a report say
too much or too little, or estimate a gain badly; none makes it fail.  What a device has stands in
`binary/occupancy.py`, and is taken from there.

Numbers that are of one module of the analyzer stand under its name, which begins theirs.  Those of
single rules are in `numbers` of their folders.  `tests/analyzer/test_numbers.py` keeps them
there.
"""
