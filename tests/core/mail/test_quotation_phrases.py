import pytest

from mailonce.core.mail.quotation_phrases import (
    ATTRIBUTION_END,
    DEVICE_SIGNATURE,
    FORWARDED,
    HEADER_LINE,
    ORIGINAL_MESSAGE,
)


@pytest.mark.parametrize(
    "line",
    [
        "On Mon, 5 Jan 2026 at 10:00, Ann <ann@example.com> wrote:",
        "Am Mo., 5. Jan. 2026 um 10:00 Uhr schrieb Ann <ann@example.com>:",
        "Am 05.01.26 um 10:00 schrieb Ann:",
        "Le lun. 5 janv. 2026 à 10:00, Ann <ann@example.com> a écrit :",
        "El lun, 5 ene 2026 a las 10:00, Ann (<ann@example.com>) escribió:",
        "Il giorno lun 5 gen 2026 alle ore 10:00 Ann <ann@example.com> ha scritto:",
        "Em seg., 5 de jan. de 2026 às 10:00, Ann <ann@example.com> escreveu:",
        "Op ma 5 jan 2026 om 10:00 schreef Ann <ann@example.com>:",
        "пн, 5 янв. 2026 г. в 10:00, Ann <ann@example.com>:",
        "05.01.2026 10:00, Ann пишет:",
        "W dniu 5.01.2026 o 10:00, Ann pisze:",
        "Den mån 5 jan. 2026 kl 10:00 skrev Ann <ann@example.com>:",
        "2026年1月5日(月) 10:00 Ann <ann@example.com>:",
        "Ann <ann@example.com> 于2026年1月5日周一 10:00写道：",
        "2026년 1월 5일 (월) 오전 10:00, Ann <ann@example.com>님이 작성:",
    ],
)
def test_the_line_above_a_quotation_is_known_in_many_languages(line: str) -> None:
    assert ATTRIBUTION_END.search(line)


@pytest.mark.parametrize("line", ["Please note:", "wrote: something", "Here is the list:"])
def test_an_ordinary_line_begins_no_quotation(line: str) -> None:
    assert not ATTRIBUTION_END.search(line)


def test_labels_know_what_they_are() -> None:
    labels = ["From: a", "Gesendet: b", "*Para:* c", "Oggetto: d", "Дата: e", "件名: f"]
    kinds = [match.lastgroup for label in labels if (match := HEADER_LINE.match(label))]

    assert kinds == ["from", "date", "to", "subject", "date", "subject"]


def test_the_other_marks() -> None:
    assert ORIGINAL_MESSAGE.match("-----Ursprüngliche Nachricht-----")
    assert ORIGINAL_MESSAGE.match("-----Message d'origine-----")
    assert not ORIGINAL_MESSAGE.match("The original message was lost")
    assert FORWARDED.match("---------- Forwarded message ---------")
    assert FORWARDED.match("Anfang der weitergeleiteten Nachricht:")
    assert DEVICE_SIGNATURE.match("Von meinem iPhone gesendet")
    assert not DEVICE_SIGNATURE.match("I sent it from my office")
