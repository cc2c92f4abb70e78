"""Every step of reading counters of launches, with the code of each call: what works on a machine.

probe_counters.py METRIC…     prints calls and codes, ranges with their names, values of METRICs

With `--records`, records of kernels are collected meanwhile, and counted. With `--graph` three
kernels are launched as a graph between two launches. Nothing of the recorder takes part.
"""

from __future__ import annotations

import ctypes as C
import sys

import torch
from known_kernels import Kernels

from tileprof.profiler.counters import host
from tileprof.profiler.cupti import cupti_library

MOST = 64
records: list[int] = []
kept: list[object] = []


def told(name: str, code: int) -> int:
    """Print a call with its result."""
    print(f"{name}: {code}{'' if code == 0 else ' ' + host.text_of(cupti, code)}", flush=True)
    return code


def parameters(**fields):
    """Parameters of a call; those that are not given are 0."""
    names = [
        ("size", C.c_size_t),
        ("own", C.c_void_p),
        *((n, kind) for n, (kind, _) in fields.items()),
    ]
    made = type("Parameters", (C.Structure,), {"_fields_": names})()
    for name, (_, value) in fields.items():
        if value is not None:
            setattr(made, name, value)
    made.size = host._end(type(made))
    return made


def call(function: str, /, **fields):
    """Call a function; its parameters afterwards."""
    made = parameters(**fields)
    told(function, getattr(cupti, function)(C.byref(made)))
    return made


def collect_records() -> None:
    """Have records of kernels counted."""
    requested = C.CFUNCTYPE(
        None, C.POINTER(C.c_void_p), C.POINTER(C.c_size_t), C.POINTER(C.c_size_t)
    )
    completed = C.CFUNCTYPE(None, C.c_void_p, C.c_uint32, C.c_void_p, C.c_size_t, C.c_size_t)

    @requested
    def request(buffer, size, most):
        held = C.create_string_buffer(1 << 20)
        kept.append(held)
        buffer[0], size[0], most[0] = C.addressof(held), 1 << 20, 0

    @completed
    def complete(context, stream, buffer, size, valid):
        record = C.c_void_p()
        while (
            cupti.cuptiActivityGetNextRecord(C.c_void_p(buffer), C.c_size_t(valid), C.byref(record))
            == 0
        ):
            records.append(C.c_uint32.from_address(record.value or 0).value)

    kept.extend([request, complete])
    told("cuptiActivityRegisterCallbacks", cupti.cuptiActivityRegisterCallbacks(request, complete))
    told("cuptiActivityEnable(CONCURRENT_KERNEL)", cupti.cuptiActivityEnable(10))


def launch(kernels: Kernels, graph: torch.cuda.CUDAGraph | None) -> None:
    """Five launches of kernels that differ; or two, with a graph in between."""
    out = torch.zeros(1 << 16, dtype=torch.int32, device="cuda")
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    kernels.launch("conflicts", sms, 32, out, 1)
    if graph is not None:
        graph.replay()
    else:
        kernels.launch("conflicts", sms, 32, out, 8)
        kernels.launch("spin", sms, 1024, out, C.c_longlong(1_000_000))
        kernels.launch("gather", 64, 256, out, out, 1)
    kernels.launch("spin", sms, 64, out, C.c_longlong(100_000))


def captured() -> torch.cuda.CUDAGraph:
    """Three kernels."""
    x = torch.ones(1 << 20, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            x = x * 2
    kept.append(x)
    return graph


def main() -> None:
    metrics = [each for each in sys.argv[1:] if not each.startswith("--")]
    kernels = Kernels()
    graph = captured() if "--graph" in sys.argv else None
    context = C.c_void_p()
    told("cuCtxGetCurrent", C.CDLL("libcuda.so.1").cuCtxGetCurrent(C.byref(context)))
    version = C.c_uint32()
    told("cuptiGetVersion", cupti.cuptiGetVersion(C.byref(version)))
    print("version", version.value, "library", found.path)
    if "--records" in sys.argv:
        collect_records()
    call("cuptiProfilerInitialize")
    supported = parameters(
        device=(C.c_int, 0), **{f"level{n}": (C.c_int, None) for n in range(7)}, api=(C.c_int, 0)
    )
    told("cuptiProfilerDeviceSupported", cupti.cuptiProfilerDeviceSupported(C.byref(supported)))
    print("supported (3: yes)", supported.level0)
    chip = call(
        "cuptiDeviceGetChipName", device=(C.c_size_t, 0), name=(C.c_char_p, None)
    ).name.decode()
    print("chip", chip)
    size = call(
        "cuptiProfilerGetCounterAvailability",
        context=(C.c_void_p, context.value),
        bytes=(C.c_size_t, 0),
        image=(C.c_void_p, None),
    ).bytes
    print("availability", size, "bytes")
    with host.Host(cupti, chip) as held:
        plan = held.plan(metrics)
        print("passes", held.passes(plan), "plan", len(plan), "bytes")
        profiler = call(
            "cuptiRangeProfilerEnable",
            context=(C.c_void_p, context.value),
            profiler=(C.c_void_p, None),
        ).profiler
        own = {"profiler": (C.c_void_p, profiler)}
        names = (C.c_char_p * len(metrics))(*[each.encode() for each in metrics])
        bytes_ = call(
            "cuptiRangeProfilerGetCounterDataSize",
            **own,
            metrics=(C.c_void_p, C.addressof(names)),
            count=(C.c_size_t, len(metrics)),
            ranges=(C.c_size_t, MOST),
            nodes=(C.c_uint32, MOST),
            bytes=(C.c_size_t, None),
        ).bytes
        print("image", bytes_, "bytes for", MOST, "ranges")
        held_plan = C.create_string_buffer(plan, len(plan))
        # Twice: a second batch must be as good as the first.
        for batch in range(2):
            image = C.create_string_buffer(bytes_)
            place = (C.c_void_p, C.addressof(image))
            call(
                "cuptiRangeProfilerCounterDataImageInitialize",
                **own,
                bytes=(C.c_size_t, bytes_),
                image=place,
            )
            call(
                "cuptiRangeProfilerSetConfig",
                **own,
                plan_bytes=(C.c_size_t, len(plan)),
                plan=(C.c_void_p, C.addressof(held_plan)),
                bytes=(C.c_size_t, bytes_),
                image=place,
                range=(C.c_uint32, 1),
                replay=(C.c_uint32, 2),
                ranges=(C.c_size_t, MOST),
                levels=(C.c_uint16, 1),
                least=(C.c_uint16, 1),
                passes=(C.c_size_t, 0),
                level=(C.c_uint16, 1),
            )
            call("cuptiRangeProfilerStart", **own)
            launch(kernels, graph)
            stopped = call(
                "cuptiRangeProfilerStop",
                **own,
                passes=(C.c_size_t, None),
                level=(C.c_size_t, None),
                complete=(C.c_uint8, None),
            )
            print("all passes submitted", stopped.complete)
            dropped = call("cuptiRangeProfilerDecodeData", **own, dropped=(C.c_size_t, None))
            print("ranges dropped", dropped.dropped)
            filled = image.raw
            for index, name in enumerate(held.ranges(filled)):
                print(f"batch {batch} range {index} {name!r}", held.values(filled, index, metrics))
        call("cuptiRangeProfilerDisable", **own)
    if "--records" in sys.argv:
        told("cuptiActivityFlushAll", cupti.cuptiActivityFlushAll(1))
        print("records of kernels", records.count(10), "of kernels launched", 2 * 5)


found = cupti_library.find_cupti()
assert found is not None, cupti_library.why_not()
cupti = host.open_library(found.path)
main()
