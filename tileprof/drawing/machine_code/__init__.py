"""Machine code run on the processor, for what it asks of memory: counters without a GPU.

In: a kernel's cubin and the arguments of a call.  Out: the requests, sectors and wavefronts of its
loads and stores, by line, kind and tensor; and the opcodes whose results are not known here.

`operands.py` reads registers, constants and addresses; `arithmetic.py` and `floats.py` say what
opcodes compute, `memory.py` what memory gives and is asked for; `threads.py` runs the threads of a
launch, `running.py` a kernel.  Meanings of opcodes are those of
the PTX that they are made of, and of NVIDIA's list of instructions (CUDA Binary Utilities 13.0).
What the copy engine and tensor cores do is left out: no address follows from it.  Waits for them
end at once, so a kernel whose roles hand numbers to each other does not come to its end.
"""
