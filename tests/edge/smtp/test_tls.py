"""STARTTLS, TLS from the first byte, certificates that change, and logins."""

import asyncio
import smtplib
import ssl
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from mailonce.edge.smtp.certificate import ServerCertificate
from mailonce.edge.smtp.logins import Credentials, Logins, read_plain
from mailonce.errors import ConfigError
from tests.edge.smtp.rig import BOX, Rig, Talk, open_door, until, write_certificate

MAIL = b"Subject: x\r\n\r\nhello\r\n"
USERS = {"ann": "pässword", "bob": "other"}


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def in_thread(rig: Rig, use: Callable[[smtplib.SMTP], Any], *, tls: bool = True) -> Any:
    def run() -> Any:
        with smtplib.SMTP("127.0.0.1", rig.port, local_hostname="me.test", timeout=30) as client:
            if tls:
                client.starttls(context=trusting())
            return use(client)

    return await asyncio.to_thread(run)


def presented(client: smtplib.SMTP) -> bytes:
    assert isinstance(client.sock, ssl.SSLSocket)
    certificate = client.sock.getpeercert(binary_form=True)
    assert certificate is not None
    return certificate


async def test_a_mail_comes_over_starttls(tmp_path: Path) -> None:
    async with open_door(certificate=write_certificate(tmp_path)) as rig:

        def send(client: smtplib.SMTP) -> tuple[bool, bool]:
            offered = client.has_extn("starttls")
            client.sendmail("a@b.test", [BOX], MAIL)
            return offered, client.has_extn("starttls")

        assert await in_thread(rig, send) == (False, False), "what was offered before is forgotten"

        assert rig.mail.raws == [MAIL]
        assert rig.mail.mails[0].envelope.tls == "TLSv1.3"


async def test_a_large_mail_comes_over_tls(tmp_path: Path) -> None:
    large = b"x" * 70 + b"\r\n"
    async with open_door(certificate=write_certificate(tmp_path)) as rig:
        await in_thread(rig, lambda client: client.sendmail("a@b.test", [BOX], large * 50_000))

        assert rig.mail.raws == [large * 50_000]
        assert rig.held_bytes == 0


async def test_connections_can_begin_with_tls(tmp_path: Path) -> None:
    async with open_door(certificate=write_certificate(tmp_path), tls_port=0) as rig:

        def send() -> None:
            assert rig.tls_port is not None
            with smtplib.SMTP_SSL("127.0.0.1", rig.tls_port, context=trusting()) as client:
                client.sendmail("a@b.test", [BOX], MAIL)

        await asyncio.to_thread(send)

        assert rig.mail.raws == [MAIL]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_old_versions_are_refused(tmp_path: Path, version: ssl.TLSVersion) -> None:
    async with open_door(certificate=write_certificate(tmp_path)) as rig:

        def send() -> None:
            context = trusting()
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
            context.maximum_version = version
            with smtplib.SMTP("127.0.0.1", rig.port) as client:
                client.starttls(context=context)

        with pytest.raises((ssl.SSLError, OSError)):
            await asyncio.to_thread(send)
        await until(lambda: rig.refused("tls_handshake") == 1, "it was counted")
        await until(lambda: not rig.door.parts.sessions, "and disconnected")


async def test_commands_in_front_of_the_handshake_are_not_believed(tmp_path: Path) -> None:
    async with open_door(certificate=write_certificate(tmp_path)) as rig:
        talk = await rig.session()
        talk.send(b"STARTTLS\r\nRSET\r\n")

        words = await talk.rest()

        assert words.startswith(b"554 5.5.0 ")
        assert words.count(b"\r\n") == 1


async def test_clear_text_after_starttls_is_no_handshake(tmp_path: Path) -> None:
    async with open_door(certificate=write_certificate(tmp_path)) as rig:
        talk = await rig.session()
        assert (await talk.ask(b"STARTTLS")).startswith(b"220 ")
        talk.send(b"MAIL FROM:<a@b.test>\r\n")

        assert not (await talk.rest()).startswith(b"250")
        assert rig.refused("tls_handshake") == 1
        talk.reset()
        await until(lambda: not rig.door.parts.sessions, "it is disconnected")


async def test_what_was_said_before_tls_counts_no_more(tmp_path: Path) -> None:
    async with open_door(certificate=write_certificate(tmp_path)) as rig:

        def skip_ehlo(client: smtplib.SMTP) -> list[int]:
            return [client.docmd("MAIL", "FROM:<a@b.test>")[0], client.docmd("STARTTLS")[0]]

        assert await in_thread(rig, skip_ehlo) == [503, 503]


async def test_a_handshake_that_never_comes_is_not_waited_for(tmp_path: Path) -> None:
    async with open_door(certificate=write_certificate(tmp_path), handshake_timeout_s=20) as rig:
        talk = await rig.session()
        assert (await talk.ask(b"STARTTLS")).startswith(b"220 ")
        talk.send(b"\x16\x03\x01")
        now = asyncio.get_running_loop().time()

        rig.door.parts.connections.look(now + 19)
        assert len(rig.door.parts.sessions) == 1
        rig.door.parts.connections.look(now + 21)

        assert await talk.rest() == b""
        assert rig.refused("handshake_timeout") == 1


async def test_mail_can_be_taken_under_tls_alone(tmp_path: Path) -> None:
    async with open_door(certificate=write_certificate(tmp_path), require_tls=True) as rig:
        talk = await rig.session()
        assert (await talk.ask(b"MAIL FROM:<a@b.test>")).startswith(b"530 5.7.0 ")

        await in_thread(rig, lambda client: client.sendmail("a@b.test", [BOX], MAIL))
        assert rig.mail.raws == [MAIL]


async def test_a_new_certificate_is_used_and_a_broken_one_is_not(tmp_path: Path) -> None:
    path = write_certificate(tmp_path)
    other = write_certificate(tmp_path, "new.test", stem="other")
    async with open_door(certificate=path) as rig:
        assert rig.door._certificate is not None
        await rig.door._loop.stop()
        first = await in_thread(rig, presented)

        path.write_text("broken")
        with capture_logs() as logs:
            rig.door._certificate.look()
            rig.door._certificate.look()
        assert [one["event"] for one in logs] == ["smtp_certificate_unreadable"]
        assert await in_thread(rig, presented) == first

        path.write_bytes(other.read_bytes())
        rig.door._certificate.look()
        second = await in_thread(rig, presented)
        assert second != first

        path.unlink()
        rig.door._certificate.look()
        assert await in_thread(rig, presented) == second


async def test_the_door_looks_for_a_new_certificate_by_itself(tmp_path: Path) -> None:
    path = write_certificate(tmp_path)
    async with open_door(certificate=path) as rig:
        assert rig.door._certificate is not None
        before = rig.door._certificate.context
        write_certificate(tmp_path, "new.test")

        await until(lambda: rig.door._certificate.context is not before, "it was read again")


def test_a_certificate_that_cannot_be_used_is_a_wrong_setting(tmp_path: Path) -> None:
    good = write_certificate(tmp_path)
    (tmp_path / "empty.pem").touch()
    other = write_certificate(tmp_path, stem="other")

    for chain, key in ((tmp_path / "none.pem", good), (tmp_path / "empty.pem", good)):
        with pytest.raises(ConfigError, match="cannot be used"):
            ServerCertificate(chain, key)
    only_chain = tmp_path / "chain.pem"
    only_chain.write_bytes(good.read_bytes().partition(b"-----BEGIN PRIVATE")[0])
    with pytest.raises(ConfigError, match="cannot be used"):
        ServerCertificate(only_chain, other)
    ServerCertificate(only_chain, good)


def test_a_key_with_a_password_is_refused_without_asking_for_it(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    good = write_certificate(tmp_path)
    key = serialization.load_pem_private_key(good.read_bytes(), None)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"word"),
        )
    )

    with pytest.raises(ConfigError, match="cannot be used"):
        ServerCertificate(good, locked)


@pytest.mark.parametrize("mechanism", ["PLAIN", "LOGIN"])
async def test_a_user_logs_in_and_the_mail_says_who(tmp_path: Path, mechanism: str) -> None:
    async with open_door(
        certificate=write_certificate(tmp_path), users=USERS, require_auth=True
    ) as rig:

        def send(client: smtplib.SMTP) -> tuple[str, int]:
            client.ehlo()
            refused = client.docmd("MAIL", "FROM:<a@b.test>")[0]
            client.user, client.password = "ann", USERS["ann"]
            # smtplib speaks ASCII in passwords.
            words = [b64encode(word.encode()).decode() for word in ("ann", USERS["ann"])]
            if mechanism == "LOGIN":
                assert client.docmd("AUTH", "LOGIN") == (334, b"VXNlcm5hbWU6")
                assert client.docmd(words[0]) == (334, b"UGFzc3dvcmQ6")
                assert client.docmd(words[1])[0] == 235
            else:
                plain = b64encode(f"\0ann\0{USERS['ann']}".encode()).decode()
                assert client.docmd("AUTH", "PLAIN")[0] == 334
                assert client.docmd(plain)[0] == 235
            client.sendmail("a@b.test", [BOX], MAIL)
            return client.esmtp_features["auth"], refused

        assert await in_thread(rig, send) == (" PLAIN LOGIN", 530)

        assert rig.mail.mails[0].envelope.user == "ann"


async def test_smtplib_logs_in(tmp_path: Path) -> None:
    async with open_door(certificate=write_certificate(tmp_path), users=USERS) as rig:
        await in_thread(rig, lambda client: client.login("bob", "other"))

        with pytest.raises(smtplib.SMTPAuthenticationError) as refused:
            await in_thread(rig, lambda client: client.login("bob", "wrong"))
        assert refused.value.smtp_code == 535


async def test_nobody_logs_in_without_tls(tmp_path: Path) -> None:
    async with open_door(certificate=write_certificate(tmp_path), users=USERS) as rig:
        talk = await rig.connect()
        assert b"AUTH" not in await talk.ask(b"EHLO me")

        assert (await talk.ask(b"AUTH PLAIN AGJvYgBvdGhlcg==")).startswith(b"538 5.7.11 ")


async def test_wrong_logins_are_counted_and_end_the_session(tmp_path: Path) -> None:
    async with open_door(
        certificate=write_certificate(tmp_path),
        users=USERS,
        unlimited=[],
        address_wrong_logins_per_minute_max=2,
    ) as rig:

        def guess(client: smtplib.SMTP) -> list[int]:
            client.ehlo()
            wrong = b64encode(b"\0bob\0guess").decode()
            return [client.docmd("AUTH", f"PLAIN {wrong}")[0] for _ in range(3)]

        assert await in_thread(rig, guess) == [535, 535, 421]


async def test_after_too_many_guesses_a_new_connection_learns_nothing(tmp_path: Path) -> None:
    async with open_door(
        certificate=write_certificate(tmp_path),
        users=USERS,
        unlimited=[],
        address_wrong_logins_per_minute_max=2,
    ) as rig:

        def guess(password: str) -> Callable[[smtplib.SMTP], int]:
            def log_in(client: smtplib.SMTP) -> int:
                client.ehlo()
                credentials = b64encode(f"\0bob\0{password}".encode()).decode()
                return client.docmd("AUTH", f"PLAIN {credentials}")[0]

            return log_in

        guesses = ["first", "second", "third", USERS["bob"]]
        codes = [await in_thread(rig, guess(one)) for one in guesses]

        assert codes == [535, 535, 421, 421]


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["AUTH CRAM-MD5"], 504),
        (["AUTH"], 504),
        (["AUTH PLAIN !!!"], 501),
        (["AUTH PLAIN YWJj"], 501),
        (["AUTH PLAIN", "*"], 501),
        (["AUTH LOGIN", "*"], 501),
        (["AUTH LOGIN Ym9i", "*"], 501),
        (["AUTH LOGIN Ym9i", "!!"], 501),
        (["AUTH LOGIN Ym9i", "b3RoZXI="], 235),
        (["AUTH PLAIN YW5uAGJvYgBvdGhlcg=="], 501),
        (["AUTH PLAIN Ym9iAGJvYgBvdGhlcg=="], 235),
        (["AUTH PLAIN AGJvYgBvdGhlcg==", "AUTH PLAIN AGJvYgBvdGhlcg=="], 503),
        (["AUTH PLAIN =", "NOOP"], 250),
        (["MAIL FROM:<a@b.test>", "AUTH PLAIN AGJvYgBvdGhlcg=="], 503),
        (["MAIL FROM:<a@b.test> AUTH=<>"], 250),
    ],
)
async def test_codes_of_logins(tmp_path: Path, lines: list[str], code: int) -> None:
    async with open_door(certificate=write_certificate(tmp_path), users=USERS) as rig:

        def say(client: smtplib.SMTP) -> int:
            client.ehlo()
            return [client.docmd(line)[0] for line in lines][-1]

        assert await in_thread(rig, say) == code


def test_a_password_is_compared_whole() -> None:
    logins = Logins(USERS)

    assert logins.match(Credentials("bob", "other"))
    assert not logins.match(Credentials("bob", "othe"))
    assert not logins.match(Credentials("bob", ""))
    assert not logins.match(Credentials("nobody", "other"))
    assert not logins.match(Credentials("", "nobody"))
    assert not logins.match(Credentials("nobody", "nobody"))
    assert read_plain(b64encode(b"\0bob\0a\0b")) is None
    assert not Logins({})


async def test_a_client_that_ends_tls_is_disconnected(tmp_path: Path) -> None:
    async with open_door(certificate=write_certificate(tmp_path), tls_port=0) as rig:
        assert rig.tls_port is not None
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", rig.tls_port, ssl=trusting(), server_hostname="mx.test"
        )
        assert (await Talk(reader, writer).reply()).startswith(b"220 ")

        writer.close()

        await until(lambda: not rig.door.parts.sessions, "it has gone")
