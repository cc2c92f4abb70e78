"""CUPTI on this machine: which copy to load, who else uses it, and what it is allowed to read.

In: the process's map, its environment, the driver's parameters.  Out: paths, names, sentences.
"""
