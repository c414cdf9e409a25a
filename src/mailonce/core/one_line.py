"""Secrets of several lines: providers give one line, so something else was pasted with it."""

from mailonce.core.empty_secret import is_empty_proof

# By field of a source, and the setting that gives it. Keys and certificates in PEM have lines.
_SETTINGS = {
    "secrets": "secret",
    "basic": "basic",
    "tokens": "token",
    "headers": "header",
    "api_keys": "api_key",
}


def is_one_line(secret: str) -> bool:
    """Say whether a secret has no line break, not even at its end."""
    return "\n" not in secret and "\r" not in secret


def setting_of_lines(source: object) -> str | None:
    """Give the setting of a source that has a value of several lines, or None."""
    for name, setting in _SETTINGS.items():
        for value in getattr(source, name):
            if not is_one_line(value) and not is_empty_proof(name, value):
                return setting
    return None
