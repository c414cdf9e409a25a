"""The structure of a mail: header fields, parts, encodings and charsets, from its bytes.

Rule: Every step is linear in what it reads, stays within `DigestBudget` and never raises.
Imports: `core.mail.address`, `core.mail.budget`, `core.mail.incoming`, `core.mail.problem`,
`core.mail.unicode_form`.
"""
