"""Judge an installation: what is well, what needs a look, what is broken, and what to do. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mailonce.core.health.record_name import RecordName

DAY_S = 86_400
SKEW_WARN_MS = 2_000
# Beyond this skew, the door blames a stale signature on its own clock.
SKEW_FAIL_MS = 30_000
POSTGRES_MIN = 14
MASTER_KEY_CHARS_MIN = 32
# How many names one finding has.
NAMES_MAX = 5
SHORT_KEY_ADVICE = (
    "make one with `openssl rand -hex 32`, and put it in front of the old one: "
    'MAILONCE_MASTER_KEY=\'["new", "old"]\''
)

# The settings by which a 2xx survives a power cut, and what to do where they differ.
DURABLE: Mapping[str, Mapping[str, tuple[frozenset[str], str]]] = {
    "sqlite": {
        "journal_mode": (frozenset({"wal"}), "leave journal_mode to mailonce"),
        "synchronous": (frozenset({"2", "3"}), "leave synchronous to mailonce"),
    },
    "postgresql": {
        "fsync": (frozenset({"on"}), "set fsync = on in postgresql.conf"),
        "synchronous_commit": (
            frozenset({"on", "local", "remote_write", "remote_apply"}),
            "set synchronous_commit = on for mailonce's role or database",
        ),
        "full_page_writes": (frozenset({"on"}), "set full_page_writes = on in postgresql.conf"),
    },
}


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: what was seen and, unless all is well, what to do."""

    check: str
    level: Level
    detail: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """What matters of a source; `horizon_s` is None where its provider is not installed."""

    name: RecordName
    provider: str
    horizon_s: int | None
    opens: bool
    proven: bool


@dataclass(frozen=True, slots=True)
class OffRecord:
    """A source, route or sender that is switched off, and why."""

    noun: str
    name: RecordName
    reason: str


def of_durability(database: str, settings: Mapping[str, str]) -> list[Finding]:
    """Judge whether what was committed survives a power cut."""
    findings: list[Finding] = []
    for name, (good, advice) in DURABLE[database].items():
        value = settings.get(name, "unknown")
        level = Level.OK if value in good else Level.FAIL
        findings.append(Finding(name, level, f"is {value}", "" if level is Level.OK else advice))
    return findings


def of_database(database: str, settings: Mapping[str, str]) -> list[Finding]:
    """Judge the database's version, and what it writes into its own log."""
    version = settings.get("version", "unknown")
    if database == "sqlite":
        return [
            Finding(
                "database", Level.OK, f"SQLite {version}; a lock file keeps a second process out"
            )
        ]
    findings = [Finding("database", Level.OK, f"PostgreSQL {version}")]
    major = version.partition(".")[0]
    if major.isdecimal() and int(major) < POSTGRES_MIN:
        advice = f"upgrade to PostgreSQL {POSTGRES_MIN} or later"
        findings = [Finding("database", Level.FAIL, f"PostgreSQL {version}", advice)]
    verbosity = settings.get("log_error_verbosity", "unknown")
    if verbosity == "terse":
        return [*findings, Finding("database log", Level.OK, "log_error_verbosity is terse")]
    advice = "set log_error_verbosity = terse, or addresses may stand in its log"
    return [
        *findings,
        Finding("database log", Level.WARN, f"log_error_verbosity is {verbosity}", advice),
    ]


def of_no_database(database: str, refusal: str) -> list[Finding]:
    """Report the checks that need a database which does not answer; `refusal` is what it said."""
    checks = (*DURABLE[database], "clock", "partitions", "window", "sources", "open work")
    advice = "run `mailonce doctor` again once the database answers"
    return [
        Finding("database", Level.FAIL, refusal),
        *(Finding(check, Level.WARN, "was not checked", advice) for check in checks),
    ]


def of_clock(skew_ms: int) -> Finding:
    """Judge how far this clock and the database's are apart."""
    detail = f"{abs(skew_ms) / 1000:.1f} s from the database's"
    if abs(skew_ms) <= SKEW_WARN_MS:
        return Finding("clock", Level.OK, detail)
    level = Level.FAIL if abs(skew_ms) > SKEW_FAIL_MS else Level.WARN
    return Finding("clock", level, detail, "let both machines follow a time server")


def of_forgetting(waits_until: str | None) -> list[Finding]:
    """Say that nothing is deleted because the clock leaped ahead."""
    if waits_until is None:
        return []
    detail = f"the clock leaped ahead; nothing is pruned until {waits_until}"
    advice = "check the clock of the database; if it is right, there is nothing to do"
    return [Finding("pruning", Level.WARN, detail, advice)]


def of_window(window_days: int, sources: Iterable[SourceState]) -> Finding:
    """Judge whether keys are remembered for longer than any provider sends again."""
    horizons = {one.provider: one.horizon_s for one in sources if one.horizon_s is not None}
    longer = sorted(name for name, s in horizons.items() if s > window_days * DAY_S)
    detail = f"keys are remembered for {window_days} days"
    if not longer:
        return Finding("window", Level.OK, detail)
    days = -(-max(horizons[name] for name in longer) // DAY_S)
    return Finding(
        "window",
        Level.FAIL,
        f"{detail}; {', '.join(longer)} may send again later than that",
        f"set window_days = {days} or more",
    )


def of_readiness(refusal: str | None) -> Finding:
    """Judge whether a running server can write; `refusal` is what /readyz says where it cannot."""
    if refusal is None:
        return Finding("readiness", Level.OK, "the server can write")
    advice = "correct it; until then nothing is accepted, and providers are asked to send again"
    return Finding("readiness", Level.FAIL, f"the server takes nothing now: {refusal}", advice)


def of_tables(place: str, *, is_empty: bool) -> Finding:
    """Say of tables that are not those of this version what becomes of them.

    None is a warning: before the first start it is so, and in the wrong folder.
    """
    if is_empty:
        advice = (
            "start the server with `mailonce serve`, which makes them, or say with --data-dir, "
            "--config or --url where your server is"
        )
        return Finding("tables", Level.WARN, f"none were made yet in {place}", advice)
    advice = "back up, then start the server, which brings them up to date"
    return Finding("tables", Level.WARN, "are those of another version of mailonce", advice)


def of_sources(sources: Sequence[SourceState], *, in_file: int = 0) -> list[Finding]:
    """Judge whether every source can be read, and proves who sends.

    `in_file`: how many the settings file has, of which the database may not know yet.
    """
    findings: list[Finding] = []
    closed: list[str] = []
    for source in sources:
        place = f"source {source.name}"
        if source.horizon_s is None:
            advice = "install the package that brings it, or remove the source"
            detail = f"provider {source.provider!r} is not installed"
            findings.append(Finding(place, Level.FAIL, detail, advice))
        elif not source.opens:
            closed.append(str(source.name))
        elif not source.proven:
            advice = "give it a secret, basic, token, header or allow_ips"
            findings.append(Finding(place, Level.WARN, "takes what nothing proves", advice))
    findings += _unreadable("source", closed, "", "set its secrets anew")
    findings.sort(key=lambda one: one.level is Level.WARN)
    if findings:
        return findings
    if in_file and not sources:
        detail = f"{in_file} in the settings file; a start brings them into the database"
        return [Finding("sources", Level.OK, detail)]
    many = "no sources yet" if not sources else f"{len(sources)}, all proven and readable"
    advice = "" if sources else "add one with `mailonce source add`"
    return [Finding("sources", Level.OK, many, advice)]


# What becomes of what is meant for it.
WHILE_DOWN = {"route": "its deliveries wait", "sender": "its mails wait"}
_WHILE_OFF = {
    "source": "its provider is asked to send again later",
    "route": "its deliveries wait, for one window at most",
    "sender": "its mails wait",
}


# How it is switched on, and how it ends.
SWITCH_ON = {"source": "source on {}", "route": "route on {}", "sender": "sender set {} --on"}
REMOVE = {"source": "source remove {}", "route": "route remove {}", "sender": "sender delete {}"}


def of_off(records: Iterable[OffRecord]) -> list[Finding]:
    """Show what is switched off, whoever did it."""
    findings: list[Finding] = []
    for one in records:
        named = one.name.in_command
        # What stands in the file is of the default workspace.
        in_file = "" if one.name.workspace else ", put it back into the settings file,"
        advice = (
            f"run `mailonce {SWITCH_ON[one.noun].format(named)}`{in_file} "
            f"or end it with `mailonce {REMOVE[one.noun].format(named)}`"
        )
        detail = f"is switched off: {one.reason}; {_WHILE_OFF[one.noun]}"
        findings.append(Finding(f"{one.noun} {one.name}", Level.WARN, detail, advice))
    return findings


def of_days(missing: Sequence[str], *, is_running: bool = True) -> Finding:
    """Judge whether there is room for tomorrow's arrivals; a start makes it."""
    if missing and not is_running:
        return Finding("partitions", Level.OK, "a start makes those for today and tomorrow")
    if not missing:
        return Finding("partitions", Level.OK, "partitions for today and tomorrow exist")
    detail = f"no partition {', '.join(missing)}"
    advice = "run `mailonce prune`; it makes the days ahead"
    return Finding("partitions", Level.FAIL, detail, advice)


def of_listening(host: str, *, is_public: bool, has_admin_key: bool) -> Finding:
    """Judge who can reach the API."""
    if not is_public:
        return Finding("listening", Level.OK, f"on {host}, this machine only")
    if has_admin_key:
        return Finding("listening", Level.OK, f"on {host}, with an admin key")
    advice = "set MAILONCE_ADMIN_KEY to a long random text, or host = 127.0.0.1"
    return Finding("listening", Level.FAIL, f"on {host}, without an admin key", advice)


def of_master_key(*, is_own_process: bool, is_shared: bool = False) -> Finding:
    """Judge whether one stolen backup would hold both the secrets and their key.

    `is_shared`: other machines may use the same database, and the key is in a file of this one.
    """
    if is_shared:
        advice = "set MAILONCE_MASTER_KEY to its content wherever this database is used"
        return Finding("master key", Level.WARN, "is in a file of this machine only", advice)
    if not is_own_process:
        return Finding("master key", Level.OK, "is kept apart from the database")
    advice = "keep master.key out of that backup, or set MAILONCE_MASTER_KEY"
    return Finding("master key", Level.WARN, "lies in the folder of the database", advice)


def of_key_length(master_keys: Iterable[str]) -> list[Finding]:
    """Warn of a master key that is short enough to be guessed by who has a backup."""
    shortest = min(map(len, master_keys), default=MASTER_KEY_CHARS_MIN)
    if shortest >= MASTER_KEY_CHARS_MIN:
        return []
    detail = f"{shortest} characters can be guessed; {MASTER_KEY_CHARS_MIN} or more cannot"
    return [Finding("master key length", Level.WARN, detail, SHORT_KEY_ADVICE)]


def of_key_rotation(needed: int, *, has_older: bool) -> list[Finding]:
    """Say whether stored secrets still need a master key behind the first one."""
    if not has_older:
        return []
    if needed:
        detail = f"{needed:,} stored secrets need a key behind the first one"
        advice = "run `mailonce reencrypt` once every process has the first key"
        return [Finding("master keys", Level.WARN, detail, advice)]
    advice = "docs/operate.md says how long the older ones are still of use"
    return [Finding("master keys", Level.OK, "the first one encrypts every stored secret", advice)]


def of_unreadable(records: Iterable[tuple[str, str]]) -> list[Finding]:
    """Name the routes and senders, by noun and name, whose secrets no master key opens."""
    names: dict[str, list[str]] = {}
    for noun, name in records:
        names.setdefault(noun, []).append(name)
    return [
        finding
        for noun, some in names.items()
        for finding in _unreadable(noun, some, f"; {WHILE_DOWN[noun]}", "make it again")
    ]


def _unreadable(noun: str, names: Sequence[str], then: str, remedy: str) -> list[Finding]:
    """Say once, however many of one noun there are, that no master key opens their secrets."""
    if not names:
        return []
    place, whose = f"{noun} {names[0]}", "its secrets"
    if len(names) > 1:
        more = f" and {len(names) - NAMES_MAX:,} more" if len(names) > NAMES_MAX else ""
        place = f"{noun}s"
        whose = f"the secrets of {len(names):,} ({', '.join(names[:NAMES_MAX])}{more})"
    advice = f"set master_key to the one that sealed them, or {remedy}"
    return [Finding(place, Level.FAIL, f"{whose} cannot be opened{then}", advice)]


def of_no_master_key(folder: str, *, has_secrets: bool) -> Finding:
    """Judge that there is no master key, neither in the settings nor in a file."""
    if not has_secrets:
        advice = "set MAILONCE_MASTER_KEY before that, to keep it apart from the database"
        return Finding("master key", Level.OK, "is made by the first start", advice)
    return Finding(
        "master key",
        Level.FAIL,
        f"none was given, and there is no master.key in {folder!r}, but stored secrets need it",
        "copy the file there, or set MAILONCE_MASTER_KEY to its content",
    )


def of_other_database(file: str, place: str) -> Finding:
    """Say that a data folder has a database that nobody uses."""
    return Finding(
        "data folder",
        Level.WARN,
        f"holds {file!r}, but `database` is {place}: what that file has is not used, also its "
        "remembered keys, pending deliveries and suppressed addresses",
        "see docs/postgresql.md, Move from SQLite; once it is moved, put the file elsewhere",
    )


def of_retention(*, window_days: int, facts_days: int) -> Finding:
    """Judge whether a message's facts outlive its log."""
    detail = f"facts stay {facts_days} days, the log {window_days}"
    if facts_days >= window_days:
        return Finding("retention", Level.OK, detail)
    advice = f"set facts_days = {window_days} or more"
    return Finding("retention", Level.WARN, detail, advice)
