"""Sends: what was asked for, what became of each, and what people did about it.

Rule: A send changes only where it still stands as it was read; values come from `core.sends`.
Imports: `core`, `store.dialects`, `store.filters`, `store.schema`.
"""
