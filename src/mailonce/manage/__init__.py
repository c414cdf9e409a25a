"""Manage: sources, routes, keys and workspaces, made, changed, listed and removed.

One module per noun: its rules, what is refused, and the change in one transaction, which every
process is told of. `records` turns settings into records, `management` puts a file's in force.
It imports what stands below the service; doors call it, and nothing that runs by itself does.
"""
