"""Lists of Triton configurations with programs and resources, stored for tests without Triton.

python -m tests.tuning.store_triton_lists FOLDER     needs Triton, no GPU
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any

STORED = {
    "matmul": ("matmul", 0, r"BM=(128|64|32) BN=(256|128|64) BK=(32|64) "),
    "softmax": ("softmax", 0, r"num_warps=(2|8) num_stages=(2|3)"),
    "attention": ("attention", 1, r"BM=(128) BN=(32|64) .*num_stages=(2|3)"),
}
"""Case of `benchmarks.triton_pruning_cases`, number of its shape, configurations that match."""
_LOCATION = re.compile(r" ?loc\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")


def stored(name: str) -> dict[str, Any]:
    """Return a list with everything that a rank needs."""
    from triton.backends.compiler import GPUTarget

    from benchmarks.triton_pruning import TARGET
    from benchmarks.triton_pruning_cases import CASES, absent, kernel_of
    from tileprof.tuning.pruning.programs import Call, program_of
    from tileprof.tuning.pruning.pruner import name_of

    kernel, number, pattern = STORED[name]
    case = next(each for each in CASES if each.name == kernel)
    function, configurations = kernel_of(case)
    named = absent(case, case.shapes[number])
    call = Call(function, named, named["grid"], GPUTarget(*TARGET))
    rows: list[dict[str, Any]] = []
    texts: list[str] = []
    for config in configurations:
        if not re.search(pattern, name_of(config)):
            continue
        program = program_of(call, config)
        given = program.configured
        lines = [each for each in program.text.splitlines() if not each.startswith("#loc")]
        text = "\n".join(_LOCATION.sub("", each) for each in lines)
        if text not in texts:
            texts.append(text)
        rows.append({
            "name": name_of(config),
            "values": {n: v for n, v in config.all_kwargs().items() if isinstance(v, int)},
            "text": texts.index(text),
            "grid": given.grid,
            "arguments": list(given.arguments.items()),
            "sizes": list(given.sizes.items()),
            "warps": given.warps,
            "stages": given.stages,
            "alike": given.alike,
            "resources": dataclasses.asdict(program.compiled(call.target)),
        })  # fmt: skip
    return {"kernel": name, "texts": texts, "configurations": rows}


if __name__ == "__main__":
    for each in STORED:
        path = Path(sys.argv[1], f"{each}.json")
        path.write_text(json.dumps(stored(each), indent=1) + "\n")
