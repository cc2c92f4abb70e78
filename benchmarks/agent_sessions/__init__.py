"""Sessions of a scripted client with `tileprof mcp`, from a slow kernel to an accepted change.

In: ten kernels, each launched by a script in a slow configuration (`slow`).  Out: for each the
calls and tokens until the client has a change whose second recording proves it;
`results/agent-sessions.json`.
"""
