"""Pictures of a kernel that runs in the interpreter: one page, and drawings of layouts.

In: a kernel and its arguments.  Out: a `Drawing`, whose page is one HTML file that needs nothing
but a browser.

`watch.py` listens to the stream of accesses: it adds up what every block accesses, keeps the
elements of global tensors as boxes (`boxes.py`), and the order of accesses for a few blocks.
`machine.py` asks the compiler for the layouts, instructions and conflicts on a GPU, `traffic.py`
counts requests by layouts, and `settled.py` puts those of `machine_code` in their place where it
can.  `page` puts all into a document.  It uses styles and scripts of the page of a report
(`viewer/html`).
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
