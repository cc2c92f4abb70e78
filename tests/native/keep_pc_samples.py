"""Keep what CUPTI hands over of sampled program counters, for tests without a GPU.

    python -m tests.native.keep_pc_samples FOLDER

On a machine with a GPU, CUPTI, PyTorch and g++. Writes `gemm.pcsamples` and `stalls.pcsamples`, to
be committed in `tests/native/data/`, and the profile of each, `gemm.tprof` and `stalls.tprof`.
`fake_cupti/keep.cpp` stands before CUPTI and writes each read down, which `fake_cupti/replay.cpp`
hands over again.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.native.cupti_programs import FAKE, compile_cpp
from tests.native.kept_samples import Kept, pieces_of, save, small
from tileprof.profiler.cupti.cupti_library import VARIABLE, find_cupti

ROOT = Path(__file__).parents[2]
LONGEST_S = 38
LAUNCHES = 150
"""Of the GEMM: samples are read several times while it runs, each 0.1 s."""
ROUNDS = 4
"""Of the kernels with known stalls, for the same reason."""
SOURCES = Path("/tmp/tileprof")
"""Where the kernels are compiled: the places of their sources stand in the cubins."""


def build_keeper(folder: Path, library: Path) -> Path:
    """Compile the library that stands before another one."""
    keeper = folder / "libkeeper.so"
    compile_cpp(
        [FAKE / "keep.cpp"], keeper, "-O1", "-fPIC", "-shared", "-fvisibility=hidden",
        f'-DLIBRARY="{library}"', str(library), "-Wl,--no-as-needed",
        str(library), f"-Wl,-rpath,{library.parent}",
    )  # fmt: skip
    return keeper


def gemm() -> Callable[[], None]:
    """Launches of our 8192³ GEMM in bfloat16, which is compiled and loaded at the first."""
    import torch

    held = ModuleType("gpu_kernels")
    path = _copied(ROOT / "benchmarks" / "gpu_kernels.py")
    exec(compile(path.read_text(), path, "exec"), held.__dict__)
    a, b = (torch.randn(8192, 8192, device="cuda").bfloat16() for _ in range(2))

    def run() -> None:
        for _ in range(LAUNCHES):
            held.matmul_nt(a, b)

    return run


def stalls() -> Callable[[], None]:
    """Launches of each kernel with a known stall."""
    from tests.stalls.kernels import SOURCE, cubin, stalled
    from tests.stalls.running import Kernels

    kernels = Kernels(cubin(str(_copied(SOURCE))))
    turns = {kernel: kernels.turns(kernel) for kernel in stalled().values()}

    def run() -> None:
        kernels.load()
        for kernel, count in ROUNDS * list(turns.items()):
            kernels.launch(kernel, count)

    return run


def keep(name: str, run: Callable[[], None], keeper: Any, folder: Path) -> None:
    """Record, and write what was handed over with what the recorder made of it."""
    import torch

    import tileprof
    from tileprof.native import _recorder as recorder

    raw = folder / f"{name}.raw"
    torch.cuda.synchronize()
    keeper.keep_into(str(raw).encode())
    with tileprof.profile(
        folder / f"{name}.tprof", context="scopes", instrument="off", pc_sampling=True
    ) as session:
        run()
        torch.cuda.synchronize()
    keeper.keep_into(None)
    profile = session.profile
    assert profile is not None
    pc = profile.tables.pc
    (recording,) = pc.recordings
    totals = recorder.pc_totals()
    facts = {
        "device": torch.cuda.get_device_name(0),
        "driver": _driver(),
        "cupti": _version(keeper),
        "period": recording.period,
        "totals": {key: totals[key] for key in ("total", "counted", "dropped", "non_user")},
    }
    print(name, facts, {k: v for k, v in profile.tables.provenance.items() if "pc " in k})
    kept = small(pieces_of(raw.read_bytes()))
    kept = kept.with_facts(facts | {"sources": _sources(kept)})
    raw.unlink()
    path = folder / f"{name}.pcsamples"
    save(kept, path)
    samples = sum(kept.samples().values())
    print(f"  {path.stat().st_size:,} bytes; {len(kept.reads)} reads of"
          f" {[len(read.records) for read in kept.reads]} records;"
          f" modules of {[len(cubin) for cubin in kept.modules.values()]} bytes;"
          f" {len(kept.stalls)} stall reasons; {samples:,} samples")  # fmt: skip


def _copied(source: Path) -> Path:
    SOURCES.mkdir(exist_ok=True)
    return Path(shutil.copy(source, SOURCES / source.name))


def _sources(kept: Kept) -> dict[str, str]:
    """Texts that the cubins' lines are of."""
    return {
        str(path): path.read_text()
        for path in sorted(SOURCES.glob("*.*"))
        if any(path.name.encode() in cubin for cubin in kept.modules.values())
    }


def _driver() -> str:
    ask = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(ask, capture_output=True, text=True, check=False, timeout=20)
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else ""


def _version(library: Any) -> int:
    version = ctypes.c_uint32()
    library.cuptiGetVersion(ctypes.byref(version))
    return version.value


def main() -> None:
    """Keep both."""
    faulthandler.dump_traceback_later(LONGEST_S, exit=True)
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    found = find_cupti()
    if found is None:
        raise SystemExit("no CUPTI here")
    print(f"CUPTI: {found.path}, {found.origin}")
    keeper = build_keeper(folder, found.path.resolve())
    os.environ[VARIABLE] = str(keeper)
    os.environ["TILEPROF_CACHE"] = str(SOURCES / "cache")
    library = ctypes.CDLL(str(keeper))
    for make in (gemm, stalls):
        try:
            keep(make.__name__, make(), library, folder)
        finally:
            library.keep_into(None)
    keeper.unlink()


if __name__ == "__main__":
    main()
