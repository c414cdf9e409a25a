"""Templates: made, changed by new versions, shown, previewed and removed."""

from collections.abc import Mapping
from typing import Any

from mailonce.clock import Clock
from mailonce.core import bounds
from mailonce.core.sends.mail_template import (
    TEMPLATES_MAX,
    VERSIONS_MAX,
    MailTemplate,
    check_template,
    read_reference,
)
from mailonce.errors import ClashError, MissingError, ParseError, RefusedError
from mailonce.send.render import Renderer
from mailonce.send.render_messages import RenderedMail
from mailonce.store.audit import name_object
from mailonce.store.configuration import locks
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.sends import templates

VARIABLES_BYTES_MAX = 200_000


class MailTemplates:
    """The templates of every workspace."""

    def __init__(self, database: Database, clock: Clock, renderer: Renderer) -> None:
        self._database = database
        self._clock = clock
        self._renderer = renderer

    async def put(
        self,
        workspace: str,
        name: str,
        subject: str,
        html: str | None,
        text: str | None,
        *,
        must_be_new: bool = False,
    ) -> MailTemplate:
        """Make a version of a template, after checking that it can be rendered.

        The same words again make no new version.
        Raises: ParseError, TemplateError, ClashError where the name is taken, RefusedError.
        """
        if read_reference(name)[1] is not None:
            raise ParseError("a version is made, not chosen; name the template alone")
        name_object(name)
        check_template(subject=subject, html=html, text=text)
        await self._renderer.check(subject=subject, html=html, text=text)
        now_ms = self._clock.now_ms()

        def work(tx: Tx) -> MailTemplate:
            locks.take(tx, locks.CONFIGURATION)
            last = templates.newest(tx, workspace, name)
            if last is not None and must_be_new:
                raise ClashError(f"there is a template {name!r} already; change it with PUT")
            if last is not None and (last.subject, last.html, last.text) == (subject, html, text):
                return last
            if last is None and templates.count_of(tx, workspace) >= TEMPLATES_MAX:
                raise RefusedError(
                    f"a workspace has at most {TEMPLATES_MAX} templates; delete one first"
                )
            version = 1 if last is None else last.version + 1
            if version > VERSIONS_MAX:
                raise RefusedError(
                    f"a template has at most {VERSIONS_MAX} versions; make one of another name"
                )
            template = MailTemplate(
                workspace=workspace,
                name=name,
                version=version,
                subject=subject,
                html=html,
                text=text,
                created_ms=now_ms,
            )
            templates.put(tx, template)
            return template

        return await self._database.write(work)

    async def page(
        self, workspace: str, *, after: str | None, limit: int
    ) -> tuple[list[MailTemplate], str | None]:
        """List the newest version of each by name, and after which name there are more."""
        rows = await self._database.read(
            lambda tx: templates.page(tx, workspace, after=after, limit=limit + 1)
        )
        more = rows[limit - 1].name if len(rows) > limit else None
        return rows[:limit], more

    async def show(
        self, workspace: str, reference: str, *, versions: int
    ) -> tuple[MailTemplate, list[MailTemplate]]:
        """Show a version of a template, the newest unless one is named, and which there are.

        Raises: ParseError, MissingError.
        """
        name, version = read_reference(reference)

        def work(tx: Tx) -> tuple[MailTemplate | None, list[MailTemplate]]:
            known = templates.versions_of(tx, workspace, name, limit=versions)
            if version is None:
                return templates.newest(tx, workspace, name), known
            return templates.version_of(tx, workspace, name, version), known

        template, known = await self._database.read(work)
        if template is None:
            raise _missing(reference)
        return template, known

    async def preview(
        self, workspace: str, reference: str, variables: Mapping[str, Any]
    ) -> RenderedMail:
        """Render a template; nothing is sent.

        Raises: ParseError, MissingError, TemplateError.
        """
        trouble = next(bounds.of_json("variables", dict(variables), VARIABLES_BYTES_MAX), None)
        if trouble is not None:
            raise ParseError(trouble)
        template, _ = await self.show(workspace, reference, versions=0)
        [mail] = await self._renderer.render(
            subject=template.subject, html=template.html, text=template.text, variables=[variables]
        )
        return mail

    async def remove(self, workspace: str, name: str) -> None:
        """Delete every version of a template.

        Raises: MissingError.
        """
        if not await self._database.write(lambda tx: templates.remove(tx, workspace, name)):
            raise _missing(name)


def _missing(reference: str) -> MissingError:
    return MissingError(f"there is no template {reference[:100]!r}; see GET /v1/templates")
