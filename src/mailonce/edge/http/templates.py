"""/v1/templates: the words of mails, versioned."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from mailonce.core.moment import moment
from mailonce.core.sends.mail_template import MailTemplate
from mailonce.edge.http.access import SendReader, SendWriter, TheService, Writer
from mailonce.edge.http.manage import NAME, StorableText
from mailonce.edge.http.query import KNOWN_QUERY, ThePage

router = APIRouter(prefix="/v1/templates", tags=["templates"], dependencies=KNOWN_QUERY)

TheName = Annotated[str, Path(description="A template's name, or name@3 for a version.")]


class TemplateWords(BaseModel):
    """The words of a template, in Jinja2; `text` is made of the HTML where it is missing."""

    model_config = ConfigDict(extra="forbid")

    subject: StorableText
    html: StorableText | None = None
    text: StorableText | None = None


class NewTemplate(TemplateWords):
    """A template to make."""

    name: str = NAME


class PreviewVariables(BaseModel):
    """What a preview is rendered with."""

    model_config = ConfigDict(extra="forbid")

    variables: dict[str, Any] = Field(default_factory=dict)


@router.get("", summary="List templates")
async def list_templates(service: TheService, caller: SendReader, page: ThePage) -> dict[str, Any]:
    """The newest version of each, by name."""
    after = page.position(str, str)
    templates, following = await service.sends.templates.page(
        caller.workspace, after=after, limit=page.limit
    )
    return {"data": [_shown(one) for one in templates], "next": following}


@router.post("", status_code=201, summary="Make a template")
async def make_template(new: NewTemplate, service: TheService, caller: Writer) -> dict[str, Any]:
    """Its first version; 409 where the name is taken."""
    template = await service.sends.templates.put(
        caller.workspace, new.name, new.subject, new.html, new.text, must_be_new=True
    )
    return _shown(template)


@router.get("/{template_name}", summary="Show a template")
async def show_template(
    template_name: TheName,
    service: TheService,
    caller: SendReader,
    versions: Annotated[int, Query(ge=0, le=100, description="How many versions to list.")] = 20,
) -> dict[str, Any]:
    """The newest version, or the one that is named, with the versions there are."""
    template, known = await service.sends.templates.show(
        caller.workspace, template_name, versions=versions
    )
    shown = _shown(template)
    shown["versions"] = [
        {"version": one.version, "created_at": moment(one.created_ms)} for one in known
    ]
    return shown


@router.put("/{template_name}", summary="Change a template")
async def change_template(
    template_name: TheName, words: TemplateWords, service: TheService, caller: Writer
) -> dict[str, Any]:
    """Makes a new version; mails that were asked for keep their words."""
    template = await service.sends.templates.put(
        caller.workspace, template_name, words.subject, words.html, words.text
    )
    return _shown(template)


@router.delete("/{template_name}", status_code=204, summary="Delete a template")
async def delete_template(template_name: TheName, service: TheService, caller: Writer) -> Response:
    """With all its versions; mails that were asked for keep their words."""
    await service.sends.templates.remove(caller.workspace, template_name)
    return Response(status_code=204)


@router.post("/{template_name}/preview", summary="Preview a template")
async def preview_template(
    template_name: TheName,
    service: TheService,
    caller: SendWriter,
    given: PreviewVariables | None = None,
) -> dict[str, Any]:
    """What a mail would say; nothing is sent."""
    variables = (given or PreviewVariables()).variables
    mail = await service.sends.templates.preview(caller.workspace, template_name, variables)
    return {"subject": mail.subject, "html": mail.html, "text": mail.text}


def _shown(template: MailTemplate) -> dict[str, Any]:
    return {
        "name": template.name,
        "version": template.version,
        "subject": template.subject,
        "html": template.html,
        "text": template.text,
        "created_at": moment(template.created_ms),
    }
