"""Place of each element of a tile: a thread and register, or a byte of shared memory.

`registers.py`: fragments, as linear layouts.  `shared.py`: shared memory, as rows with a swizzle.
`cost.py`: memory transactions and bank conflicts, counted by evaluating both.
In: shapes and thread counts.  Out: layouts, their text form (which the IR holds), their counts.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
