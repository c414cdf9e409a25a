"""A Flask app that opens one ticket for one email, however often its webhook comes.

    pip install mailonce flask sqlalchemy    # and 'psycopg[binary]' for PostgreSQL
    WEBHOOK_SECRET=whsec_c2VjcmV0LW9mLXRoZS1zZW5kZXI= python app.py

DATABASE_URL may name a PostgreSQL, postgresql://…; without it the app keeps tickets.db.
"""

import os

from flask import Flask, g, request
from flask.typing import ResponseReturnValue
from sqlalchemy import create_engine, inspect
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from mailonce.gate import Gate, Policy, schema
from mailonce.gate.adapters.flask import gated
from mailonce.gate.signature import standard_webhooks
from mailonce.gate.stores.sqlalchemy import SqlalchemyStore

url = os.environ.get("DATABASE_URL", "sqlite:///tickets.db")
engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1), pool_size=20)


class Base(DeclarativeBase):
    """The app's own tables."""


class Ticket(Base):
    """What one email opens."""

    __tablename__ = "tickets"
    id: Mapped[int] = mapped_column(primary_key=True)
    message: Mapped[str]
    subject: Mapped[str]


gate: Gate[Session] = Gate(
    SqlalchemyStore(sessionmaker(engine)),
    # Nothing is looked up or written before the signature holds.
    Policy(verify=standard_webhooks(os.environ["WEBHOOK_SECRET"])),
)
app = Flask(__name__)


@app.post("/hooks")
@gated(gate)
def receive() -> ResponseReturnValue:
    """Open a ticket. The key, the ticket and this answer commit together, or none of them does."""
    email = request.get_json()
    if not email.get("subject"):
        return {"error": "an email without a subject opens no ticket"}, 422
    ticket = Ticket(message=email["message"], subject=email["subject"])
    # The passage's own session: what is written through another commits by itself.
    session: Session = g.passage.tx
    session.add(ticket)
    session.flush()
    return {"ticket": ticket.id}, 201


def make_tables() -> None:
    """Make what is not there. A real app runs `schema.upgrade(op)` in an Alembic revision."""
    with engine.begin() as connection:
        Base.metadata.create_all(connection)
        if not inspect(connection).has_table("webhook_idempotency"):
            for statement in schema.statements(engine.dialect.name):
                connection.exec_driver_sql(statement)
    engine.dispose()


def main() -> None:
    """Serve."""
    make_tables()
    app.run(port=int(os.environ.get("PORT", "8000")), threaded=True)


if __name__ == "__main__":
    main()
