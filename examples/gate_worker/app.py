"""A worker without a framework: the door says 202 at once, a worker finishes the work, once.

    pip install mailonce    # and 'psycopg[binary]' for PostgreSQL
    WEBHOOK_SECRET=whsec_c2VjcmV0LW9mLXRoZS1zZW5kZXI= python app.py

The door commits the claim and the request, and answers 202 with `X-Mailonce-Gate: processing`; a
sender that asks again hears the recorded answer. The worker opens the ticket, and owes a call to
NOTIFY_URL in the same transaction; the call carries the effect's own Idempotency-Key. After a crash
it all goes on by itself. DATABASE_URL may name a PostgreSQL, postgresql://…
"""

import json
import os
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from mailonce.errors import UnavailableError
from mailonce.gate import Gate, Passage, Policy, Request, Response, is_final, schema
from mailonce.gate.outbox import REQUEST, Outbox, Owed
from mailonce.gate.signature import standard_webhooks
from mailonce.gate.store_contract import Store
from mailonce.gate.stores.psycopg import PsycopgStore
from mailonce.gate.stores.sqlite import SqliteStore

url = os.environ.get("DATABASE_URL", "sqlite:///tickets.db")
on_sqlite = url.startswith("sqlite:")
store: Store[Any] = SqliteStore(url.removeprefix("sqlite:///")) if on_sqlite else PsycopgStore(url)
serial, mark = ("integer", "?") if on_sqlite else ("serial", "%s")
TICKETS = f"""
CREATE TABLE tickets (id {serial} PRIMARY KEY, message text NOT NULL, subject text NOT NULL)
"""
INSERT = f"INSERT INTO tickets (message, subject) VALUES ({mark}, {mark}) RETURNING id"  # noqa: S608

# The sender hears what the worker recorded, refusals included.
policy = Policy(verify=standard_webhooks(os.environ["WEBHOOK_SECRET"]), terminal=is_final)
gate = Gate(store, policy)


def open_ticket(passage: Passage[Any], request: Request) -> Response:
    """Do the work. The ticket, what it owes and the answer commit together."""
    email = json.loads(request.body)
    if not email.get("subject"):
        return Response.json(422, {"error": "an email without a subject opens no ticket"})
    values = (email["message"], email["subject"])
    ticket = passage.tx.execute(INSERT, values).fetchone()[0]
    passage.owe("notify", json.dumps({"ticket": ticket, "message": email["message"]}).encode())
    return Response.json(201, {"ticket": ticket})


def notify(owed: Owed) -> None:
    """Tell somebody outside. A crash may repeat the call, but never with another key."""
    if not os.environ.get("NOTIFY_URL"):
        print("ticket opened:", owed.body.decode())
        return
    headers = {"content-type": "application/json", "idempotency-key": owed.key}
    call = urllib.request.Request(os.environ["NOTIFY_URL"], owed.body, headers)  # noqa: S310
    with urllib.request.urlopen(call, timeout=10) as answer:  # noqa: S310
        answer.read()


outbox = Outbox(store, {REQUEST: gate.finisher(open_ticket), "notify": notify})


def work() -> None:
    """Do what is owed, for ever."""
    while True:
        try:
            done = outbox.drain()
        except UnavailableError:
            done = 0
        if not done:
            time.sleep(0.05)


class Door(BaseHTTPRequestHandler):
    """Takes webhooks; a consumer of a queue would call `gate.run` in the same way."""

    def do_POST(self) -> None:
        """Promise the work, or say what became of it."""
        length = int(self.headers.get("content-length", "0"))
        pairs = tuple(self.headers.items())
        body = self.rfile.read(min(length, gate.rules.policy.body_bytes_max + 1))
        told = gate.defer(Request(headers=pairs, body=body, method="POST", path=self.path)).response
        self.send_response(told.status)
        for name, value in told.headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(told.body)))
        self.end_headers()
        self.wfile.write(told.body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


class Server(ThreadingHTTPServer):
    """Lets more than five senders queue for a connection."""

    request_queue_size = 128


def make_tables() -> None:
    """Make what is not there. A real app runs the SQL of `schema.script` in a migration."""
    transaction = store.begin(write=True)
    known = "SELECT name FROM sqlite_master" if on_sqlite else "SELECT tablename FROM pg_tables"
    names = {row[0] for row in transaction.handle.execute(known)}
    if "tickets" not in names:
        for statement in (TICKETS, *schema.statements("sqlite" if on_sqlite else "postgresql")):
            transaction.handle.execute(statement)
    transaction.commit()


def main() -> None:
    """Serve, and work beside it; on a second machine, run `work` alone."""
    make_tables()
    threading.Thread(target=work, daemon=True).start()
    Server(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Door).serve_forever()


if __name__ == "__main__":
    main()
