"""One module per framework: the response is held back until the commit.

Rule: An adapter translates and decides nothing.
Imports: `errors`, `gate.async_gate`, `gate.base`, `gate.gate`, `gate.rules`, `gate.stores`.
"""
