"""Programs that use NVTX, each in a process of its own: a copy of NVTX takes its tool for life."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]

PRELUDE = """
import ctypes as C, os, sys, threading
from tileprof.native import _recorder as recorder
from tileprof.profiler.device import nvtx as ours

recorder.set_frames(False)

def path():
    "The entries that the calling thread is in, outermost first."
    at, names = recorder.here(), []
    known = recorder.contexts(0)
    while at:
        parent, kind, a, b = known[at]
        if kind in (3, 5):
            domain = recorder.name(b) if kind == 5 else ""
            names.append((domain + ":" if domain else "") + recorder.name(a))
        at = parent
    return " ".join(reversed(names))

def times():
    "What was counted, by path: (count, whether it has time of its own)."
    known, found = recorder.contexts(0), {}
    for at, count, own, *_ in recorder.host_times():
        names = []
        while at:
            parent, kind, a, b = known[at]
            if kind in (3, 5):
                names.append(recorder.name(a))
            at = parent
        found[" ".join(reversed(names))] = (count, own > 0)
    return found

def spend():
    for _ in range(1000):
        pass
"""

COPY = """
class Attributes(C.Structure):
    _fields_ = [("version", C.c_uint16), ("size", C.c_uint16), ("category", C.c_uint32),
                ("color_type", C.c_int32), ("color", C.c_uint32), ("payload_type", C.c_int32),
                ("reserved", C.c_int32), ("payload", C.c_uint64), ("kind", C.c_int32),
                ("message", C.c_void_p)]

def said(kind, message):
    return C.byref(Attributes(3, C.sizeof(Attributes), kind=kind, message=message))

text = lambda what: said(1, C.cast(C.c_char_p(what.encode()), C.c_void_p))
wide = lambda what: said(2, C.cast(C.c_wchar_p(what), C.c_void_p))
registered = lambda handle: said(3, handle)
TABLE = C.CFUNCTYPE(C.c_void_p, C.c_uint32)
MODULE = C.CFUNCTYPE(C.c_int, C.c_int, C.POINTER(C.c_void_p), C.POINTER(C.c_uint))

class Callbacks(C.Structure):
    _fields_ = [("size", C.c_size_t), ("functions", MODULE)]

class Copy:
    "What each library has of NVTX: the part that looks for a tool and calls it."
    def __init__(self, modules=(1, 5)):
        self.slots = {module: (C.c_void_p * 17)() for module in modules}
        base = {module: C.addressof(slots) for module, slots in self.slots.items()}
        pointers = lambda at: (C.c_void_p * 17)(*(at + 8 * i for i in range(17)))
        self.tables = {module: pointers(at) for module, at in base.items()}
        self.keep = MODULE(self.module)
        self.callbacks = Callbacks(C.sizeof(Callbacks), self.keep)
        library = C.CDLL(recorder.getenv("NVTX_INJECTION64_PATH"))
        self.export = TABLE(lambda t: C.addressof(self.callbacks) if t == 1 else None)
        self.attached = library.InitializeInjectionNvtx2(self.export)

    def module(self, module, table, entries):
        if module not in self.tables:
            return 0
        table[0], entries[0] = C.addressof(self.tables[module]), 16
        return 1

    def function(self, module, number, result, *arguments):
        return C.CFUNCTYPE(result, *arguments)(self.slots[module][number])

ours.enable()
copy = Copy()
int_, ptr, u64, chars, wides = C.c_int, C.c_void_p, C.c_uint64, C.c_char_p, C.c_wchar_p
start_ex = copy.function(1, 4, u64, ptr)
start = copy.function(1, 5, u64, chars)
start_wide = copy.function(1, 6, u64, wides)
end = copy.function(1, 7, None, u64)
push_ex = copy.function(1, 8, int_, ptr)
push = copy.function(1, 9, int_, chars)
push_wide = copy.function(1, 10, int_, wides)
pop = copy.function(1, 11, int_)
domain_start = copy.function(5, 2, u64, ptr, ptr)
domain_end = copy.function(5, 3, None, ptr, u64)
domain_push = copy.function(5, 4, int_, ptr, ptr)
domain_pop = copy.function(5, 5, int_, ptr)
register = copy.function(5, 10, ptr, ptr, chars)
register_wide = copy.function(5, 11, ptr, ptr, wides)
domain = copy.function(5, 12, ptr, chars)
domain_wide = copy.function(5, 13, ptr, wides)
"""


def run(program: str, *preludes: str, env: dict[str, str] | None = None) -> str:
    """Run a program after `PRELUDE` and more, and return what it printed."""
    code = "".join([PRELUDE, *preludes, textwrap.dedent(program)])
    environment = {k: v for k, v in os.environ.items() if k != "NVTX_INJECTION64_PATH"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env=environment | (env or {}),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
