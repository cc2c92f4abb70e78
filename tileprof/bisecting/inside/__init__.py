"""The part that runs in the interpreter of one side: it finds kernels, compiles and times them.

In: orders over a pipe.  Out: every form of a kernel as it is, unchanged and uncompared, and times.
The other side may be another version of tileprof, or an environment that has none: these files use
nothing but the standard library, and whatever tileprof, Triton and PyTorch that interpreter has.
"""
