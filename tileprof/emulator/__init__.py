"""A machine that runs emitted CUDA text on the processor: a GPU's threads, barriers and
asynchronous copies without a GPU.

In: a `CudaSource`, its kernel and NumPy arrays.  Out: the arrays as the kernel left them, or an
`EmulationError`.  The text is compiled with headers of the prelude's names (`include/`) and run by
the machine in `runtime/`: each thread is a fiber, and a seed decides who runs next and when copies
and products of the tensor cores land, so that a missing barrier, wait or fence shows for some seed.
`building.py` compiles, `arguments.py` lays out what a kernel is given, `driver.py` runs launches,
`findings.py` reads what a run found.  A C++ compiler is needed.

A watched run (`emulate(…, watch=Watch())`) also looks for races (`runtime/races.cpp`).  Each
thread, and each thing that a thread starts and does not wait for (cp.async, loads and stores of the
copy engine, products of a warp), has a number in a vector clock.  Barriers, mbarriers, waits and
fences hand on what is known; beside each word of shared memory stand its last accesses.  Two
accesses race where neither is known to the other, whatever came first in this run.  The compiler
reports each access of the text: it is instrumented as for ThreadSanitizer, whose functions the
machine has.  Lines come from the debug information of the text.

What is modelled: barriers of all kinds with their counts; mbarriers with phases and bytes;
cp.async, TMA and bulk copies that land at any time until they are waited for, over poison; products
of warp groups that read and write as late, accumulators being poison meanwhile; the view that the
async proxy has of shared memory, which lags behind ordinary stores (and cp.async) until a
`tp_fence_async`; alignment, swizzles, descriptors and fragments as on hardware, where the texts of
`tests/cuda/test_emulator_*.py` gave the same bytes.  What is not: speed, bank conflicts, registers,
weak ordering of global memory, errors of rounding inside the tensor cores.

Threads change only at calls of `tp_*` functions; accesses between two of them are one step.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
