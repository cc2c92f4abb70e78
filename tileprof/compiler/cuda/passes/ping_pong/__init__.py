"""Ping-pong: consumer warp groups multiply alternately, each under the other's exponentials.

In: loops that several warp groups run.  Out: the same loops, with named barriers where one group
hands the tensor cores to the next.  `ping_pong` is the pass; `plan` finds the places."""
