"""A CUDA C++ program, called from Python.

spread.py LIBRARY STEPS     prints the sum of what it works out, and launches, as JSON
"""

import ctypes
import json
import sys

import tileprof

if __name__ == "__main__":
    library, steps = sys.argv[1], int(sys.argv[2])
    program = ctypes.CDLL(library)
    program.spread_signals.restype = ctypes.c_double
    with tileprof.scope("signals"):
        total = program.spread_signals(1 << 22, steps, 1000)
    print(json.dumps({"sum": round(total, 3), "launches": steps}))
