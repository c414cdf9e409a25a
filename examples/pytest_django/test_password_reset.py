"""A test that follows the link of Django's own password reset, with Django's test client.

pip install 'mailonce[server]' pytest 'django>=5.2'
pytest test_password_reset.py
"""

from collections.abc import Iterator
from urllib.parse import urlsplit

import django
import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import Client, override_settings
from django.urls import include, path

from mailonce.fixtures.inbox import FixtureInbox
from mailonce.fixtures.server import FixtureServer

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "django.contrib.messages",
        "django.contrib.admin",
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["shop.example"],
    DEFAULT_FROM_EMAIL="login@shop.example",
    SECRET_KEY="of this example",  # noqa: S106 - nobody uses it
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
)
django.setup()

from django.contrib import admin  # noqa: E402 - needs the settings above
from django.contrib.auth.models import User  # noqa: E402

# Its pages of a reset have the admin's frame.
urlpatterns = [
    path("accounts/", include("django.contrib.auth.urls")),
    path("admin/", admin.site.urls),
]


@pytest.fixture
def django_mail(mailonce_server: FixtureServer) -> Iterator[None]:
    """Let Django send to the server; its tests keep mail in memory otherwise."""
    with override_settings(
        EMAIL_BACKEND="django.core.mail.backends.smtp.EmailBackend",
        EMAIL_HOST=mailonce_server.smtp_host,
        EMAIL_PORT=mailonce_server.smtp_port,
    ):
        yield


@pytest.mark.usefixtures("django_mail")
def test_a_password_is_reset_with_the_link_of_the_mail(inbox: FixtureInbox) -> None:
    """Ask for the mail, follow its link, set a new password, and log in with it."""
    call_command("migrate", verbosity=0)
    user = User.objects.create_user("ann", inbox.address, "old word")
    browser = Client(headers={"host": "shop.example"})

    browser.post("/accounts/password_reset/", {"email": inbox.address}, secure=True)
    link = inbox.expect_link(host="shop.example/accounts/reset", sender="login@shop.example")
    form = browser.get(urlsplit(link).path, follow=True, secure=True)
    words = {"new_password1": "a new word 17", "new_password2": "a new word 17"}
    browser.post(form.request["PATH_INFO"], words, secure=True)

    user.refresh_from_db()
    assert user.check_password("a new word 17")
    inbox.expect_nothing(0.5)
