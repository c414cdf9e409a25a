"""What happened: events, the keys by which copies are known, facts, status and suppressions.

Rule: Whatever is derived here is the same in any order and with any number of copies.
Imports: `core.json_text`, `errors`.
"""
