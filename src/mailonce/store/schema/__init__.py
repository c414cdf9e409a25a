"""What is kept: the tables, the kinds of rows that a batch writes, and tables of work.

Rule: A new noun or kind of work declares itself here once, for both databases.
Imports: `core`.
"""
