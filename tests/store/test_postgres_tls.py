"""TLS to PostgreSQL that fails: which check it was, and what to do about that one."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mailonce.errors import ConfigError, MailonceError
from mailonce.store.dialects.contract import DatabaseUnavailableError
from mailonce.store.dialects.postgres.session import PostgresServer
from tests.edge.smtp.rig import write_certificate


@contextlib.asynccontextmanager
async def listening(certificate: Path | None) -> AsyncIterator[str]:
    """Begin as PostgreSQL does: one letter says whether there is TLS."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        writer.write(b"N" if certificate is None else b"S")
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            # The client hangs up, which is what this is about.
            with contextlib.suppress(OSError):
                await writer.start_tls(context)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("case", "kind", "words"),
    [
        ("name", ConfigError, "is not for that name; write a name that it has into `database`"),
        ("authority", ConfigError, "whose authority is not in sslrootcert"),
        ("expiry", DatabaseUnavailableError, "is not valid today; renew it"),
        ("no TLS", ConfigError, "has no TLS, which sslmode demands; switch it on there"),
    ],
)
async def test_the_check_that_failed_is_said(
    tmp_path: Path, case: str, kind: type[MailonceError], words: str
) -> None:
    certificate = write_certificate(tmp_path, days=-1 if case == "expiry" else 2)
    other = write_certificate(tmp_path, stem="other")
    root = other if case == "authority" else certificate
    mode = "verify-full" if case == "name" else "verify-ca"

    async with listening(None if case == "no TLS" else certificate) as place:
        with pytest.raises(MailonceError) as refused:
            await PostgresServer.find(
                f"postgresql://u:s3cret@{place}/db?sslmode={mode}&sslrootcert={root}"
            )

    assert type(refused.value) is kind
    assert f"PostgreSQL at {place}" in str(refused.value)
    assert words in str(refused.value)
    assert "start it" not in str(refused.value), "it runs"
    assert "s3cret" not in str(refused.value)
