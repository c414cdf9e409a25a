"""Call a fake, as an application calls the provider."""

from typing import Any

import httpx

from mailonce.testing.fakes import Fake
from tests.testing.provider_calls import ORDINARY, Call, credentials


async def post(fake: Fake, call: Call, **changes: Any) -> httpx.Response:
    """Post a call, with other values in the fields of its body."""
    async with httpx.AsyncClient(base_url=fake.url, headers=credentials(fake)) as client:
        body = None if call.json is None else {**call.json, **changes}
        form = None if call.form is None else {**call.form, **changes}
        return await client.post(call.path, json=body, data=form, files=call.files)


def text_of(answer: httpx.Response) -> str:
    """Give all that an answer says: some have their ids in a header."""
    return f"{answer.headers} {answer.text}"


def keyed_call(fake: Fake, number: int = 0) -> dict[str, Any]:
    """Give what `httpx` needs for a call under the key `k`, where the provider has keys."""
    call = ORDINARY[fake.name][number]
    body = {**call.json, "headers": {"idempotencyKey": "k"}} if fake.name == "brevo" else call.json
    headers = {**credentials(fake), "Idempotency-Key": "k"}
    return {"url": fake.url + call.path, "json": body, "headers": headers}
