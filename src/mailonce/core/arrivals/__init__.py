"""What comes in: an arrival, the source it is for, and the record that describes a provider.

Rule: Provider authors build on these; a field is added with a default, never renamed in passing.
Imports: `core.events`, `core.bounds`, `core.empty_secret`, `core.fields`, `core.json_text`,
`core.mail.incoming`.
"""
