"""Attachments by signed links, as deliveries carry them: no key, but a signature that expires."""

from fastapi import APIRouter, Response
from starlette.requests import Request

from mailonce.core.signatures.file_link import FileLink
from mailonce.edge.http.access import TheService
from mailonce.errors import MissingError, VerifyError
from mailonce.views.files import download_headers, find_file

router = APIRouter(tags=["inboxes"])

SECONDS_CHARS_MAX = 15


@router.get(
    "/files/{message_id}/{attachment_id}",
    summary="Download an attachment by its link",
    response_class=Response,
    responses={401: {"description": "The link is not ours, or has expired."}},
)
async def download(
    service: TheService, request: Request, message_id: str, attachment_id: str
) -> Response:
    """The link is the `url` of an attachment in what a route delivers; nothing else is needed."""
    query = request.query_params
    expires, workspace = query.get("expires", ""), query.get("workspace", "")
    is_number = expires.isascii() and expires.isdecimal() and len(expires) <= SECONDS_CHARS_MAX
    link = FileLink(workspace, message_id, attachment_id, int(expires) if is_number else 0)
    signature = query.get("signature", "")
    if not service.mail.links.is_good(link, signature, now_ms=service.clock.now_ms()):
        raise VerifyError("this link is wrong or has expired; ask GET /v1/inboxes for the message")
    file = await find_file(service.database, workspace, message_id, attachment_id)
    if file is None:
        raise MissingError("this attachment was deleted with its inbox")
    return Response(file.content, headers=download_headers(file.name), media_type=file.type)
