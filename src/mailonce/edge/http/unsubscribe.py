"""/u/{token}: unsubscribe with one click (RFC 8058). It needs no key: the token is the proof."""

from html import escape

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from mailonce.edge.http.access import TheService
from mailonce.send.unsubscribe import PATH

router = APIRouter(prefix=PATH.rstrip("/"), tags=["sends"])

CSP = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'"
HEADERS = {"Content-Security-Policy": CSP, "Referrer-Policy": "no-referrer",
           "Cache-Control": "no-store", "X-Robots-Tag": "noindex"}  # fmt: skip
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Unsubscribe</title>
<meta name="viewport" content="width=device-width">
<body style="font: 1rem/1.5 sans-serif; max-width: 34rem; margin: 4rem auto; padding: 0 1rem">
{body}</body></html>"""


@router.get("/{token}", summary="Ask whether to unsubscribe")
async def ask(token: str, service: TheService) -> HTMLResponse:
    """A page with a button: programs that follow links unsubscribe nobody."""
    wanted = service.sends.links.read(token)
    return _page(
        f"<p>Stop sending {_what(wanted.stream)} to <b>{escape(wanted.address)}</b>?</p>"
        '<form method="post"><button>Unsubscribe</button></form>'
    )


@router.post("/{token}", summary="Unsubscribe with one click")
async def unsubscribe(token: str, service: TheService) -> HTMLResponse:
    """Recorded as `unsubscribed` of the mail's stream; whatever the body says."""
    wanted = await service.sends.links.unsubscribe(token)
    return _page(f"<p><b>{escape(wanted.address)}</b> gets no more {_what(wanted.stream)}.</p>")


def _what(stream: str) -> str:
    return f"mail of “{escape(stream)}”" if stream else "mail"


def _page(body: str) -> HTMLResponse:
    return HTMLResponse(PAGE.format(body=body), headers=HEADERS)
