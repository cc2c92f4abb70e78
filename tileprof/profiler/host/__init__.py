"""Recording of the host: scopes, launches and samples of Python threads, into one tree.

In: scopes that open and close, launches, looks at frames.  Out: a `Recorder` whose numbers are
handed to the stores of the sessions that listen.
"""
