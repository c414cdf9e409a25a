"""How we reach out: every outgoing call, by HTTP or SMTP, goes through the guard.

Rule: No address is called that the guard has not allowed, and every answer is bounded.
Imports: `core.mail.dns_records`, `core.sends`, `errors`, `tls`.
"""
