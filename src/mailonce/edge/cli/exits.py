"""How errors leave the command line: one sentence and a documented exit code."""

from mailonce.errors import ConfigError, CorruptError, MailonceError, RefusedError, UnavailableError

# 0 done · 1 refused, or a check found something · 2 a setting is wrong · 3 try again · 4 corrupt
EXITS: dict[type[MailonceError], int] = {
    RefusedError: 1,
    ConfigError: 2,
    UnavailableError: 3,
    CorruptError: 4,
}


def exit_code_of(error: MailonceError) -> int:
    """Find the exit code of an error by its nearest class in the table."""
    return next((EXITS[kind] for kind in type(error).__mro__ if kind in EXITS), 1)
