"""Orders in which a recording of ours and traces of torch.profiler begin and end."""

from __future__ import annotations

ORDERS = {
    "inside": "ours+ before theirs+ during theirs- after ours-",
    "twice inside": "ours+ before theirs+ during theirs- between theirs+ again theirs- after ours-",
    "begun before and ended inside": "theirs+ alone ours+ during theirs- after ours-",
    "around": "theirs+ alone ours+ during ours- late theirs-",
    "begun inside and ended after": "ours+ before theirs+ during ours- late theirs-",
    "ended before": "theirs+ alone theirs- ours+ after ours-",
    "begun after": "ours+ before ours- theirs+ late theirs-",
    "inside a second session": "ours+ first ours- ours+ before theirs+ during theirs- after ours-",
}
"""`ours+` and `ours-` begin and end a recording of ours, `theirs+` and `theirs-` a trace of
torch.profiler; any other word is a scope in which kernels are launched."""
