"""Control of a recording from another process of the same user: `tileprof ctl`.

In: requests of one line over a socket in a folder that is the user's alone.  Out: a session that
begins, stops, tells its state, or writes what it has to a file; an answer of one line.
"""
