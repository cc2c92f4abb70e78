"""A recording of `gpu/programs/jax_functions.py` with JAX 0.11.2 on an H200, for several tests.

`h200-jax.tar.xz` has the runs of JAX's functions whole; of what XLA compiled, the ranges of these
functions and the trials of two instructions.
"""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tileprof.files import unpack
from tileprof.profile import Profile, load

DATA = Path(__file__).parent / "data"


@cache
def recording() -> Profile:
    """The recording."""
    with TemporaryDirectory() as folder, tarfile.open(DATA / "h200-jax.tar.xz") as held:
        unpack(held, folder)
        return load(Path(folder) / "jax.tprof")
