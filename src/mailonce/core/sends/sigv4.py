"""AWS Signature Version 4, for requests to SES.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import hmac
from collections.abc import Mapping
from hashlib import sha256
from urllib.parse import parse_qsl, quote, urlsplit

from msgspec.structs import replace

from mailonce.core.moment import moment
from mailonce.core.sends.sending import HttpRequest

_ALGORITHM = "AWS4-HMAC-SHA256"


def signed(
    request: HttpRequest,
    *,
    access_key: str,
    secret_key: str,
    token: str,
    region: str,
    service: str,
    now_ms: int,
) -> HttpRequest:
    """Add the headers that prove who sends a request; `token` is '' but for temporary keys."""
    at = moment(now_ms // 1000 * 1000).replace("-", "").replace(":", "").replace(".000", "")
    scope = f"{at[:8]}/{region}/{service}/aws4_request"
    parts = urlsplit(request.url)
    headers = {name.lower(): " ".join(value.split()) for name, value in request.headers}
    headers |= {"host": parts.netloc, "x-amz-date": at}
    if token:
        headers["x-amz-security-token"] = token
    names = ";".join(sorted(headers))
    canonical = _canonical(request, headers, names)
    text = "\n".join([_ALGORITHM, at, scope, sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), sha256)
    proof = hmac.digest(key, text.encode(), sha256).hex()
    own = [("X-Amz-Date", at), *([("X-Amz-Security-Token", token)] if token else [])]
    authorization = f"{_ALGORITHM} Credential={access_key}/{scope}, SignedHeaders={names}"
    own.append(("Authorization", f"{authorization}, Signature={proof}"))
    return replace(request, headers=(*request.headers, *own))


def _canonical(request: HttpRequest, headers: Mapping[str, str], names: str) -> str:
    parts = urlsplit(request.url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in pairs)
    return "\n".join(
        [
            request.method,
            quote(parts.path or "/", safe="/-_.~"),
            "&".join(f"{name}={value}" for name, value in query),
            *(f"{name}:{headers[name]}" for name in sorted(headers)),
            "",
            names,
            sha256(request.body).hexdigest(),
        ]
    )
