"""What is true: pure rules and records.

Rule: No I/O, no clock, no randomness: equal input gives equal output, so a test needs no database.
Imports: `errors`.
"""
