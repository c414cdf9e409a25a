"""What the API advises, for somebody at a command line: a command in place of a request."""

import re

# By the path that an error names; what has no command is left as it is.
COMMANDS = {
    "dead-letters": "dead list",
    "deliveries": "delivery list",
    "domains": "domain list",
    "events": "events",
    "expectations": "expectation list",
    "inboxes": "inbox list",
    "keys": "key list",
    "providers": "providers",
    "refusals": "refusals",
    "routes": "route list",
    "senders": "sender list",
    "sends": "sends list",
    "sources": "source list",
    "suppressions": "suppression list",
    "templates": "template list",
    "unmatched": "inbox unmatched",
    "workspaces": "workspace list",
}
OPTIONS = {
    "add ?source= with one of": "add --source with one of",
    "send `Authorization: Bearer KEY`": "give a key with --key, or with MAILONCE_KEY",
}
_REQUEST = re.compile(r"\bGET /v1/([a-z-]+)(?![\w/-])")
_ARRIVAL = re.compile(r"\bGET /v1/arrivals/(arr_[0-9a-f]+)")


def in_commands(sentence: str) -> str:
    """Name commands instead of the requests that do the same."""
    named = _REQUEST.sub(_command, _ARRIVAL.sub(r"`mailonce arrival show \1`", sentence))
    for request, command in OPTIONS.items():
        named = named.replace(request, command)
    return named


def _command(request: re.Match[str]) -> str:
    command = COMMANDS.get(request[1])
    return request[0] if command is None else f"`mailonce {command}`"
