"""Write the kept seeds of the fuzzers: `python -m benchmarks.reliability.keep_corpus`.

Cubins and saved kernels are compiled by NVRTC here, texts come from the golden files.  All together
have at most 300 kB.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

from tests.cuda import runtime_kernels as kernels
from tileprof import ir

__all__ = ["main"]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "data" / "fuzz"
GOLDEN = ROOT / "tests" / "golden"
TEXTS = ("flash_attention", "matmul", "softmax", "scalars", "persistent")


def main() -> None:
    """Write all seeds."""
    for name in ("cubins", "kernels", "ir"):
        (FOLDER / name).mkdir(parents=True, exist_ok=True)
    made = {
        "double": kernels.double.compile(N=1000),
        "sums": kernels.sums.compile(),
        "checked": kernels.checked.compile(N=64),
        "spoken": kernels.spoken.compile(N=64),
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
    ring = made["checked"].program.lowered("sm_90a").kernel
    (FOLDER / "ir" / "lowered.ir").write_text(ir.print_kernel(ring))


def _last_kernel(text: str) -> str:
    """The last kernel of a golden text."""
    kernel = text[text.rindex("kernel @") :]
    return kernel[: kernel.index("\n}\n") + 3]


if __name__ == "__main__":
    main()
