"""Reports of PyTorch and Triton about their own work: operations, optimizer steps, kernel work.

In: their modules, once the program has imported them.  Out: entries in the native recorder.
"""
