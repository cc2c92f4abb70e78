"""Recording of GPUs: CUPTI switched on and off, and its records as totals, timelines, samples.

In: the native recorder's counts.  Out: `NativeEvents`, the one object that host code talks to.
"""
