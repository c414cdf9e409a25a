"""Compare a command's own settings with those of the server that answers it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from mailonce.core.health.checkup import Finding, Level


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerIdentity:
    """Which database a process uses, and the public ids of its master keys, the first in front.

    `names_database` and `gives_keys` say whether they come from its settings: a default, or a file
    in the data folder, is no wish of anybody.
    """

    database: str
    master_keys: Sequence[str]
    names_database: bool = True
    gives_keys: bool = True


def of_running(its: ServerIdentity, ours: ServerIdentity) -> list[Finding]:
    """Say that a server answers, and where its settings and the command's own differ."""
    detail = "is running; the rest is as it sees it, with the settings it was started with"
    findings = [Finding("server", Level.OK, detail)]
    if its.database != ours.database:
        findings.append(_of_database(its, ours))
    # What it encrypts from now on, it encrypts with the first.
    if ours.master_keys and its.master_keys[0] not in ours.master_keys:
        findings.append(
            Finding(
                "server's master key",
                Level.FAIL if ours.gives_keys else Level.WARN,
                "is not the one that this command was given",
                "a start with this one could not read the stored secrets; correct "
                "MAILONCE_MASTER_KEY, or keep the old key behind the new one",
            )
        )
    return findings


def of_no_server(folder: str, workers: int) -> Finding:
    """Say that no server answers in `folder`; `workers` of other processes use the database.

    A warning and no failure: before the first start, and of a restored backup, it is so.
    """
    detail = f"no server runs in {folder!r}; only settings and database were checked"
    if not workers:
        return Finding("server", Level.WARN, detail, "start one with `mailonce serve`")
    processes = "process with a worker uses" if workers == 1 else "processes with workers use"
    return Finding("server", Level.OK, f"{detail}; {workers:,} other {processes} the database")


def _of_database(its: ServerIdentity, ours: ServerIdentity) -> Finding:
    check = "server's database"
    if not ours.names_database:
        detail = f"is {its.database}, and this command was given no `database`"
        advice = "give it the settings of the server, with --config and its variables"
        return Finding(check, Level.WARN, detail, advice)
    return Finding(
        check,
        Level.FAIL,
        f"is {its.database}, and not {ours.database}, which was not checked",
        "to check that one, name a data folder in which no server runs, such as "
        "`mailonce doctor --data-dir restored`",
    )
