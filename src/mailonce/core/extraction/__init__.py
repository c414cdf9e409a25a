"""Find the one code, link or state in a mail, and judge where a link leads.

Rule: Nothing is guessed: each candidate says what speaks for and against it, and where two are good
the outcome is ambiguous.
Imports: `core.mail`.
"""
