"""Every way in which a process ends while files are still to be written.

In: signals, `os._exit`, threads that outlive the program.  Out: sessions that are finalized first.
"""
