"""The gate's statements, and what keeps handlers from committing early.

Rule: One text per dialect; a store only turns its parameters into what a driver reads.
Imports: `core`, `errors`, `gate.rules`.
"""
