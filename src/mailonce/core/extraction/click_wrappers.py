"""Open the wrappers that mail gateways and senders put around links, without a request.

Some carry the target in their address; those are opened here, and the target is judged instead.
Others (click counters, short links) know it only on their server: nobody can tell from here where
they lead. Opening a wrapper wrongly does no harm, for what comes out is judged like any link.
"""

import re
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote

import orjson

from mailonce.core.extraction.web_address import URL_CHARS_MAX, WebAddress

PARAMETERS_MAX = 100


@dataclass(frozen=True, slots=True)
class WrappedLink:
    """What a wrapper leads to; None where its address does not say."""

    target: str | None


def open_wrapper(address: WebAddress) -> WrappedLink | None:
    """Open a link of a known wrapper; None where it is none."""
    for host, path, read in _WRAPPERS:
        if host.fullmatch(address.host) and path.match(address.path):
            target = read(address)
            is_usable = target is not None and 0 < len(target) <= URL_CHARS_MAX
            return WrappedLink(target if is_usable else None)
    if _OPAQUE.fullmatch(address.host):
        return WrappedLink(None)
    return None


def parameters_of(query: str) -> Mapping[str, str]:
    """Read a query string; of parameters with one name the first counts."""
    result: dict[str, str] = {}
    for name, value in parse_qsl(query[:URL_CHARS_MAX], max_num_fields=None)[:PARAMETERS_MAX]:
        result.setdefault(name, value)
    return result


def decode_base64(value: str) -> str | None:
    """Decode text in either alphabet of base64, with or without its padding."""
    plain = value.replace("+", "-").replace("/", "_").rstrip("=")
    try:
        return urlsafe_b64decode(plain + "=" * (-len(plain) % 4)).decode()
    except (Base64Error, ValueError):
        return None


Reader = Callable[[WebAddress], str | None]


def _parameter(*names: str) -> Reader:
    def read(address: WebAddress) -> str | None:
        parameters = parameters_of(address.query)
        return next((parameters[name] for name in names if name in parameters), None)

    return read


def _encoded_parameter(name: str) -> Reader:
    def read(address: WebAddress) -> str | None:
        value = parameters_of(address.query).get(name)
        return None if value is None else decode_base64(value)

    return read


def _bing(address: WebAddress) -> str | None:
    value = parameters_of(address.query).get("u", "")
    return decode_base64(value[2:]) if value.startswith("a1") else None


def _proofpoint_2(address: WebAddress) -> str | None:
    value = parameters_of(address.query).get("u")
    return None if value is None else unquote(value.replace("-", "%").replace("_", "/"))


_PROOFPOINT_3 = re.compile(r"/v3/__(.+?)__;([A-Za-z0-9_=-]*)!")
_RUN = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def _proofpoint_3(address: WebAddress) -> str | None:
    """Read version 3: characters that are not plain were cut out, and stand encoded behind it."""
    query = f"?{address.query}" if address.query else ""
    match = _PROOFPOINT_3.match(f"{address.path}{query}")
    if match is None:
        return None
    # Paths lose one of two slashes on their way through some gateways.
    url = re.sub(r"^(https?):/+", r"\1://", match[1])
    cut = decode_base64(match[2]) or ""
    at = 0

    def put_back(mark: re.Match[str]) -> str:
        nonlocal at
        count = 1 if len(mark[0]) == 1 else _RUN.index(mark[0][2]) + 2
        at += count
        return cut[at - count : at]

    return re.sub(r"\*(?:\*[A-Za-z0-9_-])?", put_back, url)


def _mandrill(address: WebAddress) -> str | None:
    outer = _json(decode_base64(parameters_of(address.query).get("p", "")))
    inner = _json(outer.get("p")) if isinstance(outer, dict) else None
    url = inner.get("url") if isinstance(inner, dict) else None
    return url if isinstance(url, str) else None


def _json(text: Any) -> Any:
    try:
        return orjson.loads(text) if isinstance(text, str) else None
    except orjson.JSONDecodeError:
        return None


def _path_tail(address: WebAddress) -> str | None:
    """Read a target that stands percent-encoded in the path, behind one or two segments."""
    match = re.search(r"/(https?(?::|%3a)(?:/|%2f){1,2}.+)", address.path, re.IGNORECASE)
    if match is None:
        return None
    # Whatever follows as a further segment is the wrapper's own.
    target = unquote(match[1].partition("/")[0] if "%2f" in match[1].lower() else match[1])
    return re.sub(r"^(https?):/+", r"\1://", target)


def _postmark(address: WebAddress) -> str | None:
    """Read `/3s/host%2Fpath/…`: the number of a version, "s" for https, and the rest."""
    match = re.match(r"/\d+(s?)/([^/]+)", address.path)
    return f"http{match[1]}://{unquote(match[2])}" if match else None


def _convertkit(address: WebAddress) -> str | None:
    return decode_base64(address.path.rpartition("/")[2])


_TABLE: tuple[tuple[str, str, Reader], ...] = (
    (r"(?:www\.)?google\.(?:com?\.)?[a-z]{2,3}", r"/url$", _parameter("q", "url")),
    (r"[a-z0-9-]+\.safelinks\.protection\.(?:outlook\.com|office365\.us)", r"/", _parameter("url")),
    (r"urldefense\.proofpoint\.com", r"/v1/url$", _parameter("u")),
    (r"urldefense\.proofpoint\.com", r"/v2/url$", _proofpoint_2),
    (r"urldefense\.(?:com|us|proofpoint\.com)", r"/v3/", _proofpoint_3),
    (r"mandrillapp\.com", r"/track/click/", _mandrill),
    (r"linkprotect\.cudasvc\.com", r"/url$", _parameter("a")),
    (r"secure-web\.cisco\.com", r"/", _path_tail),
    (r"[a-z0-9-]+\.protection\.sophos\.com", r"/", _encoded_parameter("u")),
    (r"protect2\.fireeye\.com", r"/(?:v1/)?url$", _parameter("u")),
    (r"[a-z0-9-]+\.trendmicro\.com", r"/(?:wis/)?clicktime/", _parameter("url")),
    (r"[a-z0-9.-]+\.awstrack\.me", r"/L\d/", _path_tail),
    (r"click\.pstmrk\.it", r"/\d+s?/", _postmark),
    (r"click\.convertkit-mail\d*\.com", r"/", _convertkit),
    (r"lm?\.facebook\.com", r"/l\.php$", _parameter("u")),
    (r"l\.instagram\.com", r"/", _parameter("u")),
    (r"(?:www\.)?linkedin\.com", r"/redir/", _parameter("url")),
    (r"(?:www\.)?youtube\.com", r"/redirect$", _parameter("q")),
    (r"(?:www\.)?steamcommunity\.com", r"/linkfilter/", _parameter("u", "url")),
    (r"(?:www\.)?vk\.com", r"/away\.php$", _parameter("to")),
    (r"out\.reddit\.com", r"/", _parameter("url")),
    (r"slack-redir\.net", r"/link$", _parameter("url")),
    (r"duckduckgo\.com", r"/l/$", _parameter("uddg")),
    (r"(?:www\.)?bing\.com", r"/ck/a$", _bing),
    (r"app\.getresponse\.com", r"/click\.html$", _parameter("url")),
)
_WRAPPERS = tuple((re.compile(host), re.compile(path), read) for host, path, read in _TABLE)
# Hosts whose links lead elsewhere, and whose addresses do not say where.
_OPAQUE = re.compile(
    r"(?:.+\.)?(?:"
    r"ct\.sendgrid\.net|sendgrid\.net|list-manage\.com|mandrillapp\.com|mailchi\.mp|mjt\.lu"
    r"|mailgun\.(?:org|net)|sparkpostmail\d?\.com|e\.sparkpost\.com|spgo\.io|awstrack\.me|pstmrk\.it"
    r"|sendibt?\d\.com|sendibm\d?\.com|sendinblue\.com|brevosend\.com|customeriomail\.com"
    r"|hubspotlinks\.com|hubspotemail\.net|hs-sites\.com|klclick\d?\.com|klaviyomail\.com|rs6\.net"
    r"|exacttarget\.com|exct\.net|marketo\.com|mktoweb\.com|mkt\d+\.com|icptrack\.com|cmail\d+\.com"
    r"|createsend\d?\.com|emltrk\.com|aweber\.com|getresponse\.com|activehosted\.com|acemlnc\.com"
    r"|constantcontact\.com|mailerlite\.com|mlsend\.com|omnisend\.com|convertkit-mail\d*\.com"
    r"|intercom-clicks\.com|intercom-mail\.com|braze\.com|appboy\.com|iterable\.com|links\.iterable\.com"
    r"|mimecast\.com|mimecastprotect\.com|cudasvc\.com|safelinks\.protection\.outlook\.com"
    r"|urldefense\.com|urldefense\.us|urldefense\.proofpoint\.com|secure-web\.cisco\.com"
    r"|protection\.sophos\.com|fireeye\.com"
    r"|bit\.ly|j\.mp|t\.co|goo\.gl|tinyurl\.com|ow\.ly|is\.gd|v\.gd|buff\.ly|lnkd\.in|rb\.gy|cutt\.ly"
    r"|rebrand\.ly|tiny\.cc|shorturl\.at|t\.ly|trib\.al|dlvr\.it|fb\.me|s\.id|bl\.ink|short\.io|soo\.gd"
    r"|clck\.ru|vk\.cc|u\.to|qr\.ae|adf\.ly|t\.me|app\.link|page\.link|onelink\.me|smarturl\.it"
    r")"
)
