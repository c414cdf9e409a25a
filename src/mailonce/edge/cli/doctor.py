"""`mailonce doctor`, `prune`, `reencrypt` and `reload`: check and change an installation."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from mailonce.core.health import checkup
from mailonce.core.health.checkup import Finding, Level
from mailonce.core.health.known_records import KnownRecords, KnownSender
from mailonce.core.health.running_server import ServerIdentity, of_no_server, of_running
from mailonce.core.signatures.sealing import key_id
from mailonce.edge.cli.client import (
    ApiSession,
    ServerAddress,
    open_client,
)
from mailonce.edge.cli.local_socket import find_socket
from mailonce.edge.cli.show import GAP, STYLES, Show
from mailonce.errors import ConfigError, MailonceError
from mailonce.manage.data_folder import other_database
from mailonce.settings import Settings, variables_unread

# The widest level, and the gap behind it.
LEVEL_CHARS = 4 + GAP
# What has a longer name, such as a source of yours, has its finding below it.
CHECK_CHARS = 18
VARIABLES_ADVICE = "give this command the variables of the server, or correct the file"
PLACE_ADVICE = (
    "run this command in the folder that the server is started in, and with its variables"
)


async def doctor(show: Show, target: ServerAddress, *, dns: bool = False) -> bool:
    """Check everything that can be checked from here, and say whether nothing is broken."""
    look = _examine_there if target.url else _examine_here
    findings = await look(target, dns=dns)
    if not show.answer({"data": [asdict(one) for one in findings], "next": None}):
        for line in lay_out(findings, show.console):
            show.console.print(line, soft_wrap=True)
        show.say(f"\n{_verdict(findings)}")
    return all(finding.level is not Level.FAIL for finding in findings)


async def prune(client: ApiSession, show: Show) -> None:
    """Delete what is older than its window; a server does so by itself."""
    with show.console.status("pruning …"):
        done = await client.post("prunings")
    if not show.answer(done):
        if done["waits_until"] is not None:
            show.say(
                "nothing was pruned: the clock is far ahead of where it was; check it. "
                f"If it is right, pruning begins at {done['waits_until']}"
            )
            return
        rotated = ", keys moved to a new generation" if done["rotated"] else ""
        show.say(f"pruned {done['days']:,} days and {done['rows']:,} rows{rotated}")


async def reencrypt(client: ApiSession, show: Show) -> None:
    """Encrypt stored secrets with the first master key, once every process has it."""
    encrypted = 0
    with show.console.status("encrypting …"):
        while True:
            done = await client.post("reencryptions")
            encrypted += done["encrypted"]
            if not (done["encrypted"] and done["left"]):
                break
    left = done["left"]
    if not show.answer({"encrypted": encrypted, "left": left}):
        show.say(f"{encrypted:,} stored secrets were encrypted with the first master key")
        if left:
            show.say(f"[yellow]{left:,} need an older key, and do not open with it[/yellow]")


async def reload(client: ApiSession, show: Show) -> None:
    """Let a running server read its settings again, as SIGHUP does."""
    done = await client.post("reloads")
    if show.answer(done):
        return
    changed = ", ".join(done["changed"]) or "nothing"
    show.say(f"read again; changed: {changed}")
    for record in done["off"]:
        show.say(f"[yellow]{record} is no longer in the file, and is switched off[/yellow]")
    if done["restart"]:
        show.say(f"restart the server to change {', '.join(done['restart'])}")
    # A server of an earlier version says nothing of them.
    if over_file := done.get("over_file"):
        is_one = len(over_file) == 1
        show.say(
            f"[yellow]{', '.join(over_file)}: {'a variable' if is_one else 'variables'} of the "
            f"server, which {'wins' if is_one else 'win'} over another value in the file; change "
            f"{'it' if is_one else 'them'} and restart the server[/yellow]"
        )
    if variables := done.get("variables"):
        show.say(f"not read again, as variables are read at a start only: {', '.join(variables)}")


async def _examine_there(target: ServerAddress, *, dns: bool) -> list[Finding]:
    return [_finding(item) for item in (await _checkup(target, dns=dns))["data"]]


async def _checkup(target: ServerAddress, *, dns: bool) -> Any:
    async with open_client(target) as client:
        return await client.get("checkup", dns=dns or None)


async def _examine_here(target: ServerAddress, *, dns: bool) -> list[Finding]:
    try:
        settings = target.settings()
        socket = find_socket(settings.data_dir)
    except ConfigError as error:
        return [Finding("settings", Level.FAIL, str(error))]
    if socket is not None:
        answer = await _checkup(target, dns=dns)
        ours = _identity_of(settings)
        its = _identity_in(answer) or ours
        known = await _known_there(target) if its.database == ours.database else None
        checked = [*_check(settings, known, is_running=True), *of_settings(settings)]
        there = (_finding(item) for item in answer["data"])
        return [*checked, *of_running(its, ours), *there]
    try:
        findings, known = await _examine_in_process(settings, dns=dns)
    except MailonceError as error:
        checked = [*_check(settings, None), *of_settings(settings)]
        if any(str(error) == one.detail for one in checked):
            return checked
        return [*checked, Finding("database", Level.FAIL, str(error))]
    return [*_check(settings, known), *of_settings(settings), *findings]


async def _known_there(target: ServerAddress) -> KnownRecords:
    """Ask a running server for the names that its database has."""
    async with open_client(target) as client:
        sources, routes, senders = [
            (await client.get(part))["data"] for part in ("sources", "routes", "senders")
        ]
    return KnownRecords(
        sources={one["id"]: one["name"] for one in sources},
        routes={one["id"]: one["name"] for one in routes},
        senders={
            one["id"]: KnownSender(
                name=one["name"], provider=one["provider"], next_sender=one.get("next_sender")
            )
            for one in senders
        },
    )


def _check(
    settings: Settings, known: KnownRecords | None, *, is_running: bool = False
) -> list[Finding]:
    """Judge whether a start would take the settings; where one runs, that is the next start.

    `known` is None where the database cannot be read.
    """
    from mailonce.edge.cli import start_faults  # noqa: PLC0415 - no other command pays for them
    from mailonce.manage.file_faults import faults_of_places, faults_of_records  # noqa: PLC0415
    from mailonce.manage.records import MissingSettingError  # noqa: PLC0415
    from mailonce.wiring import check_settings  # noqa: PLC0415

    faults: list[MailonceError] = []
    try:
        # That it would listen without an admin key is a finding of its own.
        check_settings(settings.model_copy(update={"host": "127.0.0.1"}))
    except ConfigError as error:
        faults.append(error)
    faults += faults_of_records(settings)
    if known is not None:
        faults += faults_of_places(settings, known)
    faults += start_faults.faults_of_folder(settings)
    if not is_running:
        faults += start_faults.faults_of_addresses(settings)
    # What stops the start is found again among the records.
    findings = [
        Finding("settings", Level.WARN, f"{sentence}, unless the server has it", VARIABLES_ADVICE)
        if is_running and isinstance(fault, MissingSettingError)
        else Finding("settings", Level.FAIL, sentence)
        for sentence, fault in {str(one): one for one in faults}.items()
    ]
    level, advice = (Level.WARN, PLACE_ADVICE) if is_running else (Level.FAIL, "")
    findings += [
        Finding("settings", level, str(fault), advice)
        for fault in start_faults.faults_of_files(settings)
    ]
    well = Finding("settings", Level.OK, "can be read, and a start would take them")
    return findings or [well]


async def _examine_in_process(
    settings: Settings, *, dns: bool
) -> tuple[list[Finding], KnownRecords | None]:
    """Examine without starting: with unreadable secrets it would not start. Nothing is written."""
    from mailonce.log_lines import start_logging  # noqa: PLC0415 - only this way pays for them
    from mailonce.manage.master_key import (  # noqa: PLC0415
        has_master_key,
        has_secrets,
        with_scratch_key,
    )
    from mailonce.views.doctor import examine_schema, read_known  # noqa: PLC0415
    from mailonce.wiring import build_service  # noqa: PLC0415

    start_logging(json=settings.log_format == "json", level="warning")
    folder = None if has_master_key(settings) else str(settings.data_dir)
    in_file = len(settings.sources)
    other = await examine_schema(
        settings.database_url,
        settings.database_place,
        folder_without_key=folder,
        sources_in_file=in_file,
    )
    if other is not None:
        # What another version keeps cannot be read.
        return other.findings, KnownRecords() if other.is_empty else None
    service = await build_service(with_scratch_key(settings), prepares=False)
    try:
        workers = await service.database.lanes.crew()
        alive = sum(one.is_present and not one.is_gone for one in workers)
        # It has the names of what the workers of other processes take to be down.
        await service.configuration.reload()
        findings = [of_no_server(str(settings.data_dir.absolute()), alive)]
        if folder is not None:
            needed = await has_secrets(service.database, service.sealer)
            findings.append(checkup.of_no_master_key(folder, has_secrets=needed))
        findings += await service.examine(dns=dns, is_running=False, sources_in_file=in_file)
        return findings, await read_known(service.database, service.sealer)
    finally:
        await service.stop()


def _identity_in(answer: Any) -> ServerIdentity | None:
    """Read what a server says of its settings; one of an earlier version says nothing."""
    its = answer.get("server")
    if its is None:
        return None
    return ServerIdentity(database=its["database"], master_keys=its["master_keys"])


def _identity_of(settings: Settings) -> ServerIdentity:
    return ServerIdentity(
        database=settings.database_place,
        master_keys=[key_id(one).hex() for one in _master_keys_of(settings)],
        names_database=bool(settings.database),
        gives_keys=bool(settings.master_key),
    )


def _master_keys_of(settings: Settings) -> list[str]:
    """Give the master keys that a server with these settings would have; none is made."""
    given = settings.master_key
    if given:
        return [given] if isinstance(given, str) else given
    # Why it cannot be read is a finding of its own.
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return settings.master_key_file.read_text().split()
    return []


def of_settings(settings: Settings) -> list[Finding]:
    """Judge what the settings alone tell; where no master key is, that depends on the database."""
    file, master_keys = settings.sqlite_file, _master_keys_of(settings)
    other = other_database(settings.data_dir, file)
    beside = file is not None and file.absolute().parent == settings.data_dir.absolute()
    key = checkup.of_master_key(
        is_own_process=beside and not settings.master_key,
        is_shared=file is None and not settings.master_key,
    )
    return [
        checkup.of_listening(
            settings.public_host or settings.host,
            is_public=settings.public_host is not None,
            has_admin_key=settings.admin_key is not None,
        ),
        *([key] if master_keys else []),
        *(
            [checkup.of_other_database(str(other), settings.database_place)]
            if other is not None
            else []
        ),
        *checkup.of_key_length(master_keys),
        *(
            Finding("variables", Level.WARN, f"{one.name} is no setting", one.advice)
            for one in variables_unread()
        ),
        checkup.of_retention(window_days=settings.window_days, facts_days=settings.facts_days),
    ]


def _finding(finding: Any) -> Finding:
    return Finding(finding["check"], Level(finding["level"]), finding["detail"], finding["advice"])


def lay_out(findings: Sequence[Finding], made_by: Console) -> Iterator[Text]:
    """Lay out each finding beside what was checked; below it where that has a long name."""
    beside = max((len(one.check) for one in findings if len(one.check) <= CHECK_CHARS), default=0)
    for finding in findings:
        style = STYLES[finding.level.value]
        head = Text.assemble((finding.level.value.ljust(LEVEL_CHARS), style), finding.check)
        indent = LEVEL_CHARS
        if len(finding.check) > beside:
            yield head
            head = Text(" " * indent)
        else:
            indent += beside + GAP
            head.pad_right(indent - len(head))
        text = Text(finding.detail)
        if finding.advice:
            text.append(f"\n→ {finding.advice}", "bold" if finding.level is not Level.OK else "dim")
        for part in text.wrap(made_by, made_by.width - indent):
            yield head + part
            head = Text(" " * indent)


def _verdict(findings: Sequence[Finding]) -> str:
    failed = sum(finding.level is Level.FAIL for finding in findings)
    warned = sum(one.level is Level.WARN for one in findings)
    if not failed and not warned:
        return "[green]all is well[/green]"
    errors, warnings = ("" if count == 1 else "s" for count in (failed, warned))
    return f"{failed} error{errors}, {warned} warning{warnings}"
