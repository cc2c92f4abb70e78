"""What single threads of a kernel do that larger pieces of work would save.

In: kernels.  Out: lanes that a guard leaves out, and work that is done for each access.
"""
