"""How we reach out: every outgoing call goes through the guarded client."""
