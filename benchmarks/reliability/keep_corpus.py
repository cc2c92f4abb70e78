"""Write the kept seeds of the fuzzers: `python -m benchmarks.reliability.keep_corpus`.

Cubins and saved kernels are compiled by NVRTC here, texts come from golden files and tests.  All
together have at most 300 kB.  `double-3.tpk` is a file of version 3 and is not written anew.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import tileprof
from tests.cuda import runtime_kernels as kernels
from tests.cuda.public_kernels import product
from tests.ir.test_ir_text import EVERY_OP
from tileprof import ir

__all__ = ["main"]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "data" / "fuzz"
GOLDEN = ROOT / "tests" / "golden"
TEXTS = ("flash_attention", "matmul", "softmax", "scalars", "persistent")

_MARKED = """kernel @marked(%x: out global<64, float32>) {
  site 0 scope "load" loc("a.py":3:4-3:20 "f")
  site 1 op "copy" in 0 issues "x" retires "x" pending 1
  state 0
  state 1 in 1 from 1
  %c64 = constant 64 : index
  launch [%c64] {threads = [64]} body(%bx: index) {
    mark {state = 1}
    parallel [%c64] body(%i: index) {
      %zero = constant 0.0 : float32
      store %zero, %x, [%i]
    }
    mark {state = 0}
  }
}
"""
"""A kernel with the marks of a measurement."""


def main() -> None:
    """Write all seeds."""
    for name in ("cubins", "kernels", "ir"):
        (FOLDER / name).mkdir(parents=True, exist_ok=True)
    made = {
        "double": kernels.double.compile(N=1000),
        "sums": kernels.sums.compile(),
        "checked": kernels.checked.compile(N=64),
        "spoken": kernels.spoken.compile(N=64),
        "scale": kernels.scale.compile(),
        "padded": kernels.padded.compile(),
        "product": tileprof.compile(product(tile=(64, 64, 64)), target="sm_90a"),
    }
    for name, kernel in made.items():
        path = FOLDER / "kernels" / f"{name}.tpk"
        kernel.save(path, ["sm_80" if name == "double" else "sm_90a"])
        with zipfile.ZipFile(path) as archive:
            (FOLDER / "cubins" / f"{name}.cubin").write_bytes(archive.read("0.cubin"))
            (FOLDER / "ir" / f"{name}.ir").write_bytes(archive.read("kernel.ir"))
    for name in TEXTS:
        text = (GOLDEN / "test_frontend_ir" / f"test_program-{name}.txt").read_text()
        (FOLDER / "ir" / f"{name}.ir").write_text(_last_kernel(text))
    (FOLDER / "ir" / "every_op.ir").write_text(EVERY_OP)
    (FOLDER / "ir" / "marked.ir").write_text(_MARKED)
    ring = made["checked"].program.lowered("sm_90a").kernel
    (FOLDER / "ir" / "lowered.ir").write_text(ir.print_kernel(ring))


def _last_kernel(text: str) -> str:
    """The last kernel of a golden text."""
    kernel = text[text.rindex("kernel @") :]
    return kernel[: kernel.index("\n}\n") + 3]


if __name__ == "__main__":
    main()
