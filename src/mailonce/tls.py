"""How the servers that we call prove who they are over TLS, and what it means where they do not."""

import ssl
from pathlib import Path

from mailonce.errors import ConfigError, MailonceError, UnavailableError

# Codes of OpenSSL: a host's name and an address; not yet valid and expired.
_WRONG_NAME = frozenset({62, 64})
_WRONG_TIME = frozenset({9, 10})
# What OpenSSL reads where a server answers without TLS.
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"})
# An error of a library hides the one of TLS behind a few of its own.
_CAUSES_MAX = 8


def client_context(ca_file: str | Path | None = None) -> ssl.SSLContext:
    """Make a context that verifies the server by the system's authorities, and those of `ca_file`.

    OpenSSL finds the system's, and takes SSL_CERT_FILE and SSL_CERT_DIR from the environment.
    Raises: ConfigError where the file cannot be used.
    """
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except ssl.SSLError as error:
            raise ConfigError(
                f"`net.ca_file` names {str(ca_file)!r}, which has no certificate in PEM; correct it"
            ) from error
        except OSError as error:
            why = (error.strerror or type(error).__name__).lower()
            raise ConfigError(
                f"`net.ca_file` names {str(ca_file)!r}, which cannot be read ({why}); correct it"
            ) from error
    return context


def tls_fault(place: str, error: BaseException) -> MailonceError | None:
    """Say which check of TLS made a call to `place` fail; None where it was none of them.

    A connection that broke while TLS began is none: that is what a restart looks like.
    """
    match _ssl_error_of(error):
        case ssl.SSLCertVerificationError(verify_code=code) if code in _WRONG_NAME:
            return ConfigError(
                f"the certificate of {place} is not for that name; use a name that it has in the "
                "URL, or give that server a certificate for this one"
            )
        case ssl.SSLCertVerificationError(verify_code=code) if code in _WRONG_TIME:
            return UnavailableError(
                f"the certificate of {place} is not valid today; renew it there, or correct this "
                "machine's clock"
            )
        case ssl.SSLCertVerificationError() as refused:
            return ConfigError(
                f"the certificate of {place} is not trusted ({refused.verify_message}); let "
                "SSL_CERT_FILE, or for a command `net.ca_file` (MAILONCE_NET__CA_FILE), name the "
                "PEM file of its authority"
            )
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError() | ssl.SSLSyscallError() | None:
            return None
        case ssl.SSLError(reason=reason) if reason in _NO_TLS:
            return ConfigError(
                f"what listens at {place} answers without TLS; write http:// in the URL, or the "
                "port that has TLS"
            )
        case ssl.SSLError(reason=reason):
            return ConfigError(f"{place} refused TLS ({reason}); compare its TLS settings")


def _ssl_error_of(error: BaseException) -> ssl.SSLError | None:
    cause: BaseException | None = error
    for _ in range(_CAUSES_MAX):
        if cause is None or isinstance(cause, ssl.SSLError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None
