"""Words on links are known in every language."""

import pytest

from mailonce.core.extraction import link_keywords
from mailonce.core.extraction.normalise import fold, normalise

ACTIONS = (
    "Verify email", "Confirm your address", "Reset password", "Sign in", "Log in now",
    "E-Mail bestätigen", "Passwort zurücksetzen", "Vérifier mon adresse", "Confirmez",
    "Se connecter", "Verificar correo", "Iniciar sesión", "Ativar conta", "Conferma indirizzo",
    "Accedi", "Bevestig e-mailadres", "Potwierdź adres", "Подтвердить адрес", "Войти", "Doğrula",
    "Bekräfta",
    "確認する", "ログイン", "验证邮箱", "驗證", "인증하기", "تأكيد البريد", "सत्यापित करें",
)  # fmt: skip
ROUTINES = (
    "Unsubscribe", "Privacy Policy", "View in your browser", "Manage your preferences", "Abmelden",
    "Impressum", "Se désabonner", "Darse de baja", "配信停止", "退订", "Отписаться", "Help Center",
    "This wasn't me", "수신거부",
)  # fmt: skip


def test_words_of_actions(subtests: pytest.Subtests) -> None:
    for words in ACTIONS:
        with subtests.test(words):
            assert link_keywords.ACTION_PATTERN.search(fold(normalise(words)))


def test_words_that_every_mail_has(subtests: pytest.Subtests) -> None:
    for words in ROUTINES:
        with subtests.test(words):
            assert link_keywords.ROUTINE_PATTERN.search(fold(normalise(words)))


def test_words_of_addresses(subtests: pytest.Subtests) -> None:
    for address in ("/verify/1", "/a?token=1", "/users/confirmation?x", "/auth/magic-link"):
        with subtests.test(address):
            assert link_keywords.ACTION_ADDRESS_PATTERN.search(address)
    for address in ("/unsubscribe", "/legal/privacy-policy", "/help/1"):
        with subtests.test(address):
            assert link_keywords.ROUTINE_ADDRESS_PATTERN.search(address)
    for address in ("/authors/1", "/helpers", "/keyboard"):
        with subtests.test(address):
            assert not link_keywords.ACTION_ADDRESS_PATTERN.search(address), address
