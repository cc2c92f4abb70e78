"""The stream of a kernel's memory accesses: what each block reads and writes, in order.

The interpreter calls a `Listener` with one `Access` for each op that reads or writes a buffer, for
all blocks of a batch at once.  `EventLog` keeps those of some blocks and turns them into a table,
`Events`.  Without a listener nothing is noted.
"""
