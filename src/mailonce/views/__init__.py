"""What can be seen: read-only, paged, in the words of the public contract.

Rule: A view changes nothing and reads one workspace.
Imports: `clock`, `core`, `errors`, `providers`, `store`.
"""
