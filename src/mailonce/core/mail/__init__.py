"""Mail itself: as it comes in, what is read from it, and by what copies of it are known.

Rule: Pure, and never raises over what a sender wrote: what is wrong with a mail is named in it.
Imports: `core.ids`, `core.json_text`, `core.moment`, `core.text`, `errors`.
"""
