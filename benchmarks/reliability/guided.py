"""Fuzzing guided by coverage of the readers of cubins, saved kernels and IR texts.

    python -m benchmarks.reliability.guided cubins|saved_kernels|ir_text [ARGUMENTS] FOLDER

Needs atheris, which is optional (`pip install atheris`).  Arguments after the name are libFuzzer's,
such as `-max_total_time=600 -rss_limit_mb=2048 -timeout=10 FOLDER`; new inputs are written to
FOLDER, which begins as a copy of `tests/data/fuzz/…`.  Saved kernels are loaded, not called.  An
input that ends in anything but a sentence is written to `crash-…` and ends the run.
"""

from __future__ import annotations

import io
import sys
import tempfile
import zipfile
from collections.abc import Callable

__all__ = ["main"]


_WATCHED = (
    "tileprof.binary",
    "tileprof.ir",
    "tileprof.lang.saved",
    "tileprof.runtime.cuda.binary_file",
    "tileprof.runtime.typed_json",
    "tileprof.compiler.untrusted",
    "zipfile",
)


def main() -> None:
    """Run until a fault is found, or as long as libFuzzer's arguments say."""
    import atheris  # type: ignore[import-untyped, import-not-found, unused-ignore]

    with atheris.instrument_imports(include=list(_WATCHED)):
        import tileprof
        from tileprof import ir
        from tileprof.binary.cubin import _parse
        from tileprof.binary.line_table import line_tables
        from tileprof.compiler.untrusted import prove_anew
        from tileprof.errors import InternalError, TileprofError

    def cubin(data: bytes) -> None:
        read = _parse.__wrapped__(data)
        line_tables(read.elf)
        for each in list(read.functions.values())[:20]:
            _ = each.resources, each.procedures

    def text(data: bytes) -> None:
        prove_anew(ir.parse(data.decode("utf-8", "replace")))

    def kernel(data: bytes) -> None:
        # Checksums of the archive would refuse most mutants: members are packed anew.
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                members = {name: archive.read(name) for name in archive.namelist()[:20]}
        except Exception:
            members = {}
        with tempfile.NamedTemporaryFile(suffix=".tpk") as file:
            if members:
                with zipfile.ZipFile(file, "w") as made:
                    for name, content in members.items():
                        made.writestr(name, content)
            else:
                file.write(data)
            file.flush()
            tileprof.load_kernel(file.name)

    readers: dict[str, Callable[[bytes], None]] = {
        "cubins": cubin, "ir_text": text, "saved_kernels": kernel,
    }  # fmt: skip
    read = readers[sys.argv.pop(1)]

    def one(data: bytes) -> None:
        try:
            read(data)
        except InternalError:
            raise
        except TileprofError:
            pass

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
