"""Rules about whole programs: the host, transfers, launches and many kernels together.

In: a program and its kernels.  Out: drafts of findings."""
