"""Expectations: which artifact an inbox should get, what matched, and who consumed it.

Rule: Pure. The state of an expectation follows from its mails and consumptions; nothing else.
Imports: `core.extraction`, `core.mail`, `core.moment`, `core.bounds`, `core.text`, `core.reading`,
`core.access`, `core.argument_error`, `errors`.
"""
