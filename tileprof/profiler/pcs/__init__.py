"""Samples of GPU program counters, from CUPTI's counts to a profile's tables.

In: counts by module, function, offset and stall reason.  Out: `PcSamples` with code, source lines
and the instructions that others wait for.
"""
