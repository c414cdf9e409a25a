"""An event owed to a route: filters, bodies, keys, and the signatures of what we send.

Rule: A delivery's key and bytes never change once they are recorded.
Imports: `core.events`, `core.signatures`, `core.work`, `core.bounds`, `core.empty_secret`,
`core.fields`, `core.ids`, `core.moment`, `errors`.
"""
