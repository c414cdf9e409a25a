"""A Django project in one file: one ticket for one email, however often its webhook comes.

    pip install mailonce 'django>=5.2'    # and 'psycopg[binary]' for PostgreSQL
    WEBHOOK_SECRET=whsec_c2VjcmV0LW9mLXRoZS1zZW5kZXI= python app.py

DATABASE_URL may name a PostgreSQL, postgresql://…; without it the app keeps tickets.db.
"""

import json
import os
from socketserver import ThreadingMixIn
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIServer, make_server

import django
from django.conf import settings
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.db import connection, models
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

place = urlsplit(os.environ.get("DATABASE_URL", "sqlite:///tickets.db"))
DATABASE = {"ENGINE": "django.db.backends.sqlite3", "NAME": place.path[1:]}
if place.scheme == "postgresql":
    DATABASE = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": place.path[1:],
        "HOST": place.hostname or "",
        "PORT": str(place.port or ""),
        "USER": place.username or "",
        "PASSWORD": place.password or "",
    }
settings.configure(
    DATABASES={"default": DATABASE},
    # The gate's migration makes its table.
    INSTALLED_APPS=["mailonce.gate.django"],
    # Sends the length, by which a sender knows an answer that a crash cut short.
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["localhost", "127.0.0.1"],
    SECRET_KEY=os.environ["WEBHOOK_SECRET"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
)
django.setup()

# These need Django's settings.
from mailonce.gate import Gate, Policy  # noqa: E402
from mailonce.gate.adapters.django import gated  # noqa: E402
from mailonce.gate.signature import standard_webhooks  # noqa: E402
from mailonce.gate.stores.django import DjangoStore  # noqa: E402


class Ticket(models.Model):
    """What one email opens."""

    message = models.TextField()
    subject = models.TextField()

    class Meta:
        """A project of one file is not an app, and has no migrations of its own."""

        app_label = "tickets"
        db_table = "tickets"

    def __str__(self) -> str:
        """Show the subject."""
        return self.subject


gate = Gate(
    DjangoStore(),
    # Nothing is looked up or written before the signature holds.
    Policy(verify=standard_webhooks(os.environ["WEBHOOK_SECRET"])),
)


@csrf_exempt
@gated(gate)
def receive(request: HttpRequest) -> JsonResponse:
    """Open a ticket. The key, the ticket and this answer commit together, or none of them does."""
    email = json.loads(request.body)
    if not email.get("subject"):
        return JsonResponse({"error": "an email without a subject opens no ticket"}, status=422)
    ticket = Ticket.objects.create(message=email["message"], subject=email["subject"])
    return JsonResponse({"ticket": ticket.pk}, status=201)


urlpatterns = [path("hooks", receive)]
application = get_wsgi_application()


class Server(ThreadingMixIn, WSGIServer):
    """The standard library's server with a thread per request; take gunicorn in production."""

    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    """Migrate, and serve."""
    call_command("migrate", verbosity=0)
    if "tickets" not in connection.introspection.table_names():
        with connection.schema_editor() as editor:
            editor.create_model(Ticket)
    connection.close()
    port = int(os.environ.get("PORT", "8000"))
    make_server("127.0.0.1", port, application, server_class=Server).serve_forever()


if __name__ == "__main__":
    main()
