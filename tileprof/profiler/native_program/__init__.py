"""Recording programs without Python: launched by `tileprof run`, recorded from within.

The driver of CUDA loads a library into the program (native/injection), which runs an interpreter
there. So a session records such a program as it does any other, to the last option.
"""
