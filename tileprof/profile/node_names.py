"""Names of nodes that more than one part of the house knows by name.

In and out: nothing; these are constants. Reasons of idle time are given by the recorder and read by
the analyzer and the views; scopes of training steps are opened by PyTorch. Frames around calls of
modules are named by the recorder, and read where trees are made for views.
"""

from __future__ import annotations

LATE, AFTER_WAIT = "waiting for its launch", "waiting for its launch after a host's wait"
AFTER_COPY, DEPENDENT = "waiting for its launch after a host's copy", "between dependent work"
FOR_HOST, FOR_DATA = "waiting for the host", "waiting for data"
BEFORE_UNKNOWN, ONLY_COPIES = "before unknown work", "only copies"
"""Why a device had nothing to do, as idle nodes are named; or nothing but copies."""

CAPTURED = "captured at"
"""Name of the node between the launch of a graph and the path on which its work was captured."""

OPTIMIZER_SCOPE, LOADER_SCOPE = r"Optimizer\.\w+#", r"enumerate\(.*\)#"
"""Beginnings of scopes that PyTorch opens by itself in a training step, as regular expressions."""

MODULE_FILE = "torch/nn/modules/module.py"
"""End of the path, with `/`, of the file in which PyTorch calls modules."""
MODULE_CALLER = "_wrapped_call_impl"
"""Function in `MODULE_FILE` that every call of a module goes through first, as PyTorch names it.
The recorder keeps this name where the module's is not known."""
CALL_SUFFIX = ".__call__"
"""End of the recorder's name for a frame of that function, after the name of the module."""
LAYER_SUFFIX = ".__layer__"
"""End of the name of a frame right in that one, after the layer's key in its container, where
single layers are recorded."""
