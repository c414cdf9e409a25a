"""The certificate of the SMTP door: read at the start, and again when its files have changed.

A new handshake uses what was read last; sessions under way keep theirs. Files are replaced one
after the other, and may not fit together for a moment: then the former certificate stays in use,
which is logged once, until they change again.
"""

import ssl
from pathlib import Path

from mailonce.errors import ConfigError
from mailonce.telemetry import SMTP_CERTIFICATE_LOADED, SMTP_CERTIFICATE_UNREADABLE, log

_Stamp = tuple[tuple[int, int, int], ...]


class ServerCertificate:
    """A certificate chain and its key, in files that others may replace."""

    def __init__(self, chain: Path, key: Path) -> None:
        self._chain = chain
        self._key = key
        self._stamp = self._stamp_of_files()
        try:
            self.context = self._load()
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"the certificate {str(chain)!r} with the key {str(key)!r} cannot be used "
                f"({_name_of(error)}); name files in PEM format that belong together"
            ) from error

    def look(self) -> None:
        """Load the files again where they have changed since they were last tried."""
        stamp = self._stamp_of_files()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self.context = self._load()
        except (OSError, ValueError) as error:
            log.error(SMTP_CERTIFICATE_UNREADABLE, error=_name_of(error))
        else:
            log.info(SMTP_CERTIFICATE_LOADED)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        # Without a password to try, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(self._chain, self._key, password="")
        return context

    def _stamp_of_files(self) -> _Stamp:
        stamps = []
        for path in (self._chain, self._key):
            try:
                info = path.stat()
            except OSError:
                stamps.append((0, 0, 0))
            else:
                stamps.append((info.st_mtime_ns, info.st_size, info.st_ino))
        return tuple(stamps)


def _name_of(error: Exception) -> str:
    """Name what went wrong without the paths that an error may hold."""
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or "wrong password"
