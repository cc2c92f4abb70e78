"""A report as one page that needs nothing but a browser: no network, no other file.

In: a report of the analyzer, with its profile.  Out: one HTML file: the account of the
devices' time, findings, the call tree, a flame graph, kernels, source lines beside machine code
with their samples, and the timelines that there are: of the warps of single CTAs, of the program,
of hardware counters.

`page.html`, the styles and the scripts are files of this package; `page.py` puts them and one
block of JSON into a page. The JSON has columns, not a record for each node, and rows are drawn when
they come into sight, so that 10,000 nodes open at once. Scripts write text as text only, so no name
in a profile can become markup; a policy in the page forbids every request.

All of it is drawn by scripts of our own: plotly's script alone is 4.8 MB and takes longer to parse
than all of this page. Timelines have a limited number of bars: short ones are merged, and the page
says how many. `viewer/figures` draws single timelines for notebooks.
"""

from typing import TYPE_CHECKING

from tileprof.once import names_of

if TYPE_CHECKING:
    from .public import *
else:
    __getattr__, __dir__ = names_of(__name__)
