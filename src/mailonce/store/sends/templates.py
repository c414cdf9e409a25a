"""Templates: every version of each, by name."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from mailonce.core.sends.mail_template import MailTemplate
from mailonce.store.schema.send_tables import TEMPLATES

_T = TEMPLATES.c


def newest(tx: Connection, workspace: str, name: str) -> MailTemplate | None:
    query = select(TEMPLATES).where(_T.workspace == workspace, _T.name == name)
    return _first(tx, query.order_by(_T.version.desc()).limit(1))


def version_of(tx: Connection, workspace: str, name: str, version: int) -> MailTemplate | None:
    query = select(TEMPLATES).where(_T.workspace == workspace, _T.name == name)
    return _first(tx, query.where(_T.version == version))


def versions_of(tx: Connection, workspace: str, name: str, *, limit: int) -> list[MailTemplate]:
    """List the versions of a template, newest first."""
    query = select(TEMPLATES).where(_T.workspace == workspace, _T.name == name)
    rows = tx.execute(query.order_by(_T.version.desc()).limit(limit)).mappings()
    return [_read(row) for row in rows]


def page(tx: Connection, workspace: str, *, after: str | None, limit: int) -> list[MailTemplate]:
    """List the newest version of each template, by name."""
    last = (
        select(_T.name, func.max(_T.version).label("version"))
        .where(_T.workspace == workspace, _T.name > (after or ""))
        .group_by(_T.name)
        .order_by(_T.name)
        .limit(limit)
        .subquery()
    )
    query = (
        select(TEMPLATES)
        .join(last, (last.c.name == _T.name) & (last.c.version == _T.version))
        .where(_T.workspace == workspace)
        .order_by(_T.name)
    )
    return [_read(row) for row in tx.execute(query).mappings()]


def count_of(tx: Connection, workspace: str) -> int:
    names = select(_T.name).where(_T.workspace == workspace).distinct().subquery()
    return tx.scalar(select(func.count()).select_from(names)) or 0


def put(tx: Connection, template: MailTemplate) -> None:
    """Insert a version; two that come at once cannot both have its number."""
    tx.execute(insert(TEMPLATES).values(**asdict(template)))


def remove(tx: Connection, workspace: str, name: str) -> int:
    """Delete every version of a template; say how many there were."""
    is_one = (_T.workspace == workspace) & (_T.name == name)
    return tx.execute(delete(TEMPLATES).where(is_one)).rowcount


def _first(tx: Connection, query: Any) -> MailTemplate | None:
    row = tx.execute(query).mappings().first()
    return None if row is None else _read(row)


def _read(row: Mapping[Any, Any]) -> MailTemplate:
    return MailTemplate(**row)
