"""How we reach out: every outgoing call goes through the guarded client.

Rule: No address is called that the guard has not allowed, and every answer is bounded.
Imports: `errors`.
"""
