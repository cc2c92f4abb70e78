"""Where each element of a tile lives: which thread and register, or which byte of shared memory.

`registers.py`: fragments, as linear layouts.  `shared.py`: shared memory, as rows with a swizzle.
`cost.py`: memory transactions and bank conflicts, counted by evaluating both.
In: shapes and thread counts.  Out: layouts, their text form (which the IR holds), their counts.
"""

from .registers import Digit, RegisterLayout, blocked, parse_layout
from .shared import SharedLayout, parse_shared

__all__ = ["Digit", "RegisterLayout", "SharedLayout", "blocked", "parse_layout", "parse_shared"]
