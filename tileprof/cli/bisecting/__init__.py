"""`tileprof bisect`: which kernels changed between two compilers, at which level, and why.

In: arguments.  Out: text or JSON, and an exit code.
"""
