"""SES publishes a mail by SNS, or where in S3 it lies."""

from base64 import b64encode
from typing import Any

import orjson

from mailonce.core.arrivals.mail_fetch import FetchAnswer
from mailonce.testing.mail import SimulatedHook, SimulatedMail
from mailonce.testing.sign import iso
from mailonce.testing.simulator import Post, Simulator
from mailonce.testing.sns import SnsSimulator

BUCKET = "example-mail"
PASS = {"status": "PASS"}


def write(simulator: Simulator, mail: SimulatedMail, mode: str, now_s: int) -> list[Post]:
    assert isinstance(simulator, SnsSimulator), "SES speaks through SNS"
    action: dict[str, Any] = {"type": "SNS", "topicArn": simulator.topic}
    message: dict[str, Any] = {}
    match mode:
        case "base64":
            action["encoding"] = "BASE64"
            message["content"] = b64encode(mail.raw).decode()
        case "utf8":
            action["encoding"] = "UTF8"
            message["content"] = mail.raw.decode("utf-8", "replace")
        case _:
            key = f"in/{mail.id}"
            action |= {"type": "S3", "bucketName": BUCKET, "objectKey": key}
            region = simulator.topic.split(":")[3]
            url = f"https://s3.{region}.amazonaws.com/{BUCKET}/{key}"
            simulator.answers[url] = FetchAnswer(status=200, body=mail.raw)
    message |= {
        "notificationType": "Received",
        "receipt": {
            "timestamp": iso(mail.received_s),
            "recipients": list(mail.recipients),
            **dict.fromkeys(("spamVerdict", "virusVerdict", "spfVerdict", "dkimVerdict"), PASS),
            "action": action,
        },
        "mail": {
            "timestamp": iso(mail.received_s),
            "source": mail.sender,
            "messageId": mail.id,
            "destination": list(mail.recipients),
        },
    }
    return [simulator.envelope(orjson.dumps(message), now_s=now_s)]


HOOK = SimulatedHook(
    modes=("base64", "utf8", "s3"),
    write=write,
    settings=lambda simulator: {"api_key": f"AKIDEXAMPLE:{simulator.keys.text('api')}"},
)
