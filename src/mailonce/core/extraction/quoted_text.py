"""Blank what a reply quotes: an older code or link in it is not meant.

Blanked text becomes spaces, so that positions stay what they are.
"""

from mailonce.core.mail.reply_text import quoted_line_numbers


def blank_quotes(text: str) -> str:
    """Replace quoted lines by spaces; a mail that is nothing but quoted is left as it is."""
    lines = text.split("\n")
    quoted = quoted_line_numbers(lines)
    kept = [" " * len(line) if n in quoted else line for n, line in enumerate(lines)]
    return "\n".join(kept) if any(line.strip() for line in kept) else text
