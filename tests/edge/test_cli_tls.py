"""Servers behind an authority of one's own: commands and clients trust it, or say what is wrong."""

import asyncio
import contextlib
import os
import ssl
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from mcp import Client as McpClient
from mcp import StdioServerParameters, stdio_client

from mailonce import AsyncClient, Client
from mailonce.edge.cli.client import verification_of
from mailonce.edge.cli.forward import ForwardedEvent, Forwarder
from mailonce.errors import ConfigError, MailonceError, UnavailableError
from mailonce.net.http import GuardedClient
from tests.commands import ADMIN_KEY, SOURCE, Done, Shell
from tests.edge.smtp.rig import write_certificate

CASES = [
    ("authority", ConfigError, "is not trusted (self-signed certificate); let SSL_CERT_FILE"),
    ("name", ConfigError, "is not for that name; use a name that it has in the URL"),
    ("expiry", UnavailableError, "is not valid today; renew it there, or correct"),
    ("no TLS", ConfigError, "answers without TLS; write http:// in the URL"),
]
EXITS = {ConfigError: 2, UnavailableError: 3}


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("behind-tls"))


@pytest.fixture(scope="module")
def url(shell: Shell) -> Iterator[str]:
    with shell.serving() as url:
        yield url


@contextlib.asynccontextmanager
async def proxied(url: str, certificate: Path) -> AsyncIterator[str]:
    """Put TLS before a server, as a proxy does; give its URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(url)
        reading, writing = await asyncio.open_connection(parts.hostname, parts.port)
        await asyncio.gather(copy(reader, writing), copy(reading, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}"


@contextlib.asynccontextmanager
async def refusing(case: str, url: str, folder: Path) -> AsyncIterator[tuple[str, Path]]:
    """Give the URL of a server that fails one check, and the authorities to trust."""
    name = "elsewhere.test" if case == "name" else "localhost"
    certificate = write_certificate(folder, name, days=-1 if case == "expiry" else 2)
    other = write_certificate(folder, stem="other")
    if case == "no TLS":
        yield url.replace("http:", "https:"), certificate
        return
    async with proxied(url, certificate) as secure:
        yield secure, other if case == "authority" else certificate


async def list_sources(shell: Shell, url: str, *options: str, **env: str) -> Done:
    arguments = ("source", "list", "--url", url, "--key", ADMIN_KEY, *options)
    return await asyncio.to_thread(shell.run, *arguments, env=env)


async def test_a_command_trusts_an_authority_of_your_own(
    shell: Shell, url: str, tmp_path: Path
) -> None:
    certificate = write_certificate(tmp_path, "localhost")
    config = tmp_path / "net.toml"
    # The rest of the file may be for another machine.
    config.write_text(f'net.ca_file = "{certificate}"\n[sources.a]\nprovider = "postmark"\n')

    async with proxied(url, certificate) as secure:
        by_variable = await list_sources(shell, secure, SSL_CERT_FILE=str(certificate))
        by_setting = await list_sources(shell, secure, MAILONCE_NET__CA_FILE=str(certificate))
        by_file = await list_sources(shell, secure, "--config", str(config))

    assert [one.code for one in (by_variable, by_setting, by_file)] == [0, 0, 0], by_setting.err


@pytest.mark.parametrize(("case", "kind", "words"), CASES)
async def test_a_command_says_which_check_failed(
    shell: Shell, url: str, tmp_path: Path, case: str, kind: type[MailonceError], words: str
) -> None:
    async with refusing(case, url, tmp_path) as (secure, trusted):
        done = await list_sources(shell, secure, SSL_CERT_FILE=str(trusted))

    assert words in " ".join(done.err.split())
    assert secure in done.err
    assert "mailonce serve" not in done.err, "it runs"
    assert done.code == EXITS[kind]


@pytest.mark.parametrize(("case", "kind", "words"), CASES)
async def test_a_client_says_at_once_which_check_failed(
    url: str,
    tmp_path: Path,
    case: str,
    kind: type[MailonceError],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with refusing(case, url, tmp_path) as (secure, trusted), asyncio.timeout(20):
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        with Client(secure, ADMIN_KEY) as client, pytest.raises(MailonceError) as blocking:
            await asyncio.to_thread(client.send, "ann@example.net", from_="a@b.example", key="k1")
        async with AsyncClient(secure, ADMIN_KEY) as client:
            with pytest.raises(MailonceError) as awaited:
                await client.find_access()

    assert type(blocking.value) is type(awaited.value) is kind
    assert str(blocking.value) == str(awaited.value)
    assert words in str(awaited.value)
    if kind is UnavailableError:
        assert blocking.value.members["key"] == "k1", "it may be asked for again"


async def test_a_client_trusts_what_ssl_cert_file_names(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = write_certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    async with proxied(url, certificate) as secure, AsyncClient(secure, ADMIN_KEY) as client:
        awaited = await client.find_access()
        with Client(secure, ADMIN_KEY) as blocking_client:
            blocking = await asyncio.to_thread(blocking_client.find_access)

    assert awaited == blocking
    assert awaited["scope"]


async def test_tools_over_stdio_trust_an_authority_of_your_own(url: str, tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path, "localhost")
    async with proxied(url, certificate) as secure:
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-m", "mailonce", "mcp"],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(SOURCE),
                "MAILONCE_URL": secure,
                "MAILONCE_KEY": ADMIN_KEY,
                "MAILONCE_NET__CA_FILE": str(certificate),
            },
        )
        async with McpClient(stdio_client(parameters)) as client, asyncio.timeout(30):
            tools = (await client.list_tools()).tools

    assert "open_expectation" in {tool.name for tool in tools}


async def test_listen_posts_to_an_application_with_a_certificate_of_its_own(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = write_certificate(tmp_path, "localhost")
    async with proxied(url, certificate) as secure:
        unknown = await _posted(f"{secure}/healthz")
        monkeypatch.setenv("MAILONCE_NET__CA_FILE", str(certificate))
        known = await _posted(f"{secure}/healthz")

    assert "is not trusted (self-signed certificate); let SSL_CERT_FILE" in unknown.answer
    assert known.status == 404, "it answered"


async def _posted(url: str) -> ForwardedEvent:
    event = ForwardedEvent(
        key="k", cursor=1, body=b"{}", route="r", type="t", recipient="-", at="12:00:00"
    )
    verify = verification_of(url, None)
    async with httpx.AsyncClient(trust_env=False, verify=verify) as http:
        await Forwarder(http, url, "whsec_" + "a" * 32, lambda _: None).redeliver(event)
    return event


def test_an_authority_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("no certificate\n")

    with pytest.raises(ConfigError, match=r"empty\.pem', which has no certificate in PEM"):
        GuardedClient(ca_file=empty)
    with pytest.raises(ConfigError, match=r"none\.pem', which cannot be read \(no such file"):
        GuardedClient(ca_file=tmp_path / "none.pem")


async def simulate_at(shell: Shell, url: str, **env: str) -> Done:
    arguments = ("simulate", "postmark", "--to", f"{url}/in/none", "--events", "2")
    return await asyncio.to_thread(shell.run, *arguments, env=env)


async def test_simulated_posts_trust_an_authority_of_your_own(
    shell: Shell, url: str, tmp_path: Path
) -> None:
    certificate = write_certificate(tmp_path, "localhost")

    async with proxied(url, certificate) as secure:
        done = await simulate_at(shell, secure, MAILONCE_NET__CA_FILE=str(certificate))

    assert "there is no such source" in " ".join(done.out.split()), "it answered"


@pytest.mark.parametrize(("case", "kind", "words"), CASES)
async def test_a_simulation_says_at_once_which_check_failed(
    shell: Shell, url: str, tmp_path: Path, case: str, kind: type[MailonceError], words: str
) -> None:
    async with refusing(case, url, tmp_path) as (secure, trusted):
        done = await simulate_at(shell, secure, SSL_CERT_FILE=str(trusted))

    assert words in " ".join(done.err.split())
    assert secure in done.err
    assert done.code == EXITS[kind]
