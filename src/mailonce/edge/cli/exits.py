"""Exit codes; an error is one sentence on standard error.

0  done, and nothing was found wrong
1  refused: the request is not right, there is no such thing, a check (`doctor`, `verify`,
   `demo`, `simulate`) found something, or what was sent again did not arrive
2  a setting or an argument is wrong; the sentence names it
3  the server or the database does not answer now: try again
"""

from mailonce.errors import ConfigError, MailonceError, RefusedError, UnavailableError

CHECK_FAILED = 1

EXITS: dict[type[MailonceError], int] = {
    RefusedError: 1,
    ConfigError: 2,
    UnavailableError: 3,
}


def exit_code_of(error: MailonceError) -> int:
    """Find the exit code of an error by its nearest class in the table."""
    return next((EXITS[kind] for kind in type(error).__mro__ if kind in EXITS), 1)
