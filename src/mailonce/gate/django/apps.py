"""The Django app's configuration."""

from django.apps import AppConfig


class GateConfig(AppConfig):
    """Labelled so that it cannot be taken for Django itself."""

    name = "mailonce.gate.django"
    label = "mailonce_gate"
    verbose_name = "Idempotency gate"
