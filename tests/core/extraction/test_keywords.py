"""Words of every language are found as whole words, whatever their case and accents."""

import pytest

from mailonce.core.extraction import keywords
from mailonce.core.extraction.normalise import fold, normalise

STRONG = (
    "Your Verification Code", "one-time password", "6-digit code", "OTP", "Bestätigungscode",
    "EINMALPASSWORT", "code de vérification", "code à usage unique", "Código de verificación",
    "código de segurança", "codice di verifica", "verificatiecode", "kod weryfikacyjny",
    "код подтверждения", "код підтвердження", "doğrulama kodunuz", "DOĞRULAMA KODU",
    "verifieringskod", "bekreftelseskode", "vahvistuskoodi", "ověřovací kód", "κωδικός επαλήθευσης",
    "mã xác minh", "kode verifikasi", "認証コード", "ワンタイムパスワード", "验证码", "驗證碼",
    "인증번호", "인증 코드", "رمز التحقق", "رمز التأكيد", "सत्यापन कोड", "קוד האימות",
    "รหัสยืนยัน", "کد تایید",
)  # fmt: skip
NOT_STRONG = ("a barcode", "encode this", "the coder", "Standard", "decode", "kodiak", "tandem")
OTHER = (
    "order", "Bestellnummer", "commande", "pedido", "注文番号", "订单号", "заказ №", "Tel",
    "ZIP code", "code postal", "Rechnungsnummer", "ending in", "郵便番号", "주문번호",
    "Kundennummer", "promo code",
)  # fmt: skip


def test_strong_words(subtests: pytest.Subtests) -> None:
    for words in STRONG:
        with subtests.test(words):
            assert keywords.STRONG_PATTERN.search(fold(normalise(words)))
    for words in NOT_STRONG:
        with subtests.test(words):
            assert not keywords.STRONG_PATTERN.search(fold(normalise(words)))


def test_words_of_other_numbers(subtests: pytest.Subtests) -> None:
    for words in OTHER:
        with subtests.test(words):
            assert keywords.OTHER_NUMBER_PATTERN.search(fold(normalise(words)))


def test_words_of_promotions(subtests: pytest.Subtests) -> None:
    for words in (
        "20% off",
        "Gutscheincode",
        "code promo",
        "промокод",
        "クーポン",
        "优惠码",
        "kupon",
    ):
        with subtests.test(words):
            assert keywords.PROMOTION_PATTERN.search(fold(normalise(words)))
