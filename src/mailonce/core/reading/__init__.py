"""Take typed values out of what a provider sent: JSON, forms, SMTP replies, the parts of a mail.

Rule: Hostile input is bounded and never raises anything but ParseError.
Imports: `core.arrivals`, `core.events`, `core.json_text`, `core.mail`, `core.text`, `errors`.
"""
