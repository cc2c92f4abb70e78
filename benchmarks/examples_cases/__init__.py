"""TileLang's example kernels that are timed, and the shapes at which they are.

An example is run by its own `main` or test where that takes sizes; otherwise by a line of code that
calls its kernel.  The first run of each has the sizes that the example has when its file is
executed.  Nothing of a kernel is here, and no tile size that the example does not pass itself.
"""
