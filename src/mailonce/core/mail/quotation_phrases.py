"""The words by which mail programs begin a quotation, an old header or a signature, by language.

English, German, French, Spanish, Italian, Portuguese, Dutch, Russian, Polish, Swedish, Danish,
Norwegian, Turkish, Japanese, Chinese and Korean, as Gmail, Outlook, Apple Mail, Thunderbird and
Yahoo write them.
"""

import re

COLONS = (":", "：")

# The end of the line above a quotation: "On Monday, Ann wrote:".
_WROTE = (
    r"\bwrote",
    r"\bschrieb(?:\b[^:]{0,150})?",
    r"\ba écrit",
    r"\bescribió",
    r"\bha scritto",
    r"\bescreveu",
    r"\b(?:schreef|heeft)\b[^:]{0,150}",
    r"\b(?:на)?писал(?:а|\(а\))?",
    r"\bпишет",
    r"\b(?:na)?pisał(?:a|\(a\))?",
    r"\bpisze",
    r"\bskrev(?:\b[^:]{0,150})?",
    r"\byazdı",
    r"のメール",
    r"は書きました",
    r"写道",
    r"寫道",
    r"작성",
    r"썼습니다",
    r"님이 쓴 글",
    # Gmail in Japanese and Korean ends with the address alone.
    r"<[^<>\s]{3,100}@[^<>\s]{3,100}>",
)
ATTRIBUTION_END = re.compile(rf"(?:{'|'.join(_WROTE)})\s?[:：]\s*$", re.IGNORECASE)
# Its beginning; where none fits, the line with the end must have a date or an address itself.
_STARTS = (
    r"(?:On|Am|Le|El|Il|In data|Em|Op|Den|W dniu|Dnia)\b",
    r"\d{1,4}[./年년-]",
    r"(?:пн|вт|ср|чт|пт|сб|вс)[,.]",
    r"(?:pon|wt|śr|czw|pt|sob|niedz)\.",
    r"A (?:seg|ter|qua|qui|sex|s[áa]b|dom)\b",
)
ATTRIBUTION_START = re.compile(rf"\s*(?:{'|'.join(_STARTS)})", re.IGNORECASE)

# Words between two lines of dashes, above the old mail.
_ORIGINAL = (
    "Original Message",
    "Original Appointment",
    "Reply message",
    "Ursprüngliche Nachricht",
    "Original-?Nachricht",
    "Message d['’]origine",
    "Message original",
    "Mensaje original",
    "Messaggio originale",
    "Mensagem original",
    "Oorspronkelijk bericht",
    "Исходное сообщение",
    "Oryginalna wiadomość",
    "Wiadomość oryginalna",
    "Ursprungligt meddelande",
    "Oprindelig meddelelse",
    "Opprinnelig melding",
    "Özgün İleti",
    "Orijinal Mesaj",
    "元のメッセージ",
    "原始邮件",
    "原始郵件",
    "邮件原件",
    "원본 메시지",
)
ORIGINAL_MESSAGE = re.compile(
    rf"\s*-{{2,20}}\s*(?:{'|'.join(_ORIGINAL)})\s*-{{2,20}}\s*$", re.IGNORECASE
)
# What follows is the content, not a quotation.
_FORWARDED = (
    "(?:Begin )?Forwarded message",
    "Weitergeleitete Nachricht",
    "Anfang der weitergeleiteten Nachricht",
    "Message transféré",
    "Début du message réexpédié",
    "Mensaje reenviado",
    "Inicio del mensaje reenviado",
    "Messaggio inoltrato",
    "Inizio messaggio inoltrato",
    "Mensagem encaminhada",
    "Início da mensagem reencaminhada",
    "Doorgestuurd bericht",
    "Begin doorgestuurd bericht",
    "Пересланное сообщение",
    "Начало переадресованного сообщения",
    "Przekazana wiadomość",
    "転送されたメッセージ",
    "转发的邮件",
    "轉寄的郵件",
    "전달된 메시지",
)
FORWARDED = re.compile(
    rf"\s*(?:-{{2,20}}\s*)?(?:{'|'.join(_FORWARDED)})\s*(?:-{{2,20}}\s*|[:：]\s*)$", re.IGNORECASE
)

# The labels of an old header, as Outlook puts it above the old mail.
_LABELS = {
    "from": "From Von De Da Van От Od Från Fra Kimden 差出人 发件人 寄件者 보낸_사람",
    "date": "Sent Date Gesendet Datum Envoyé Enviado Enviado_el Enviado_em Fecha Inviato Data "
    "Verzonden Дата Отправлено Wysłano Skickat Sendt Gönderildi Tarih 送信日時 日時 日期 发送时间 "
    "寄件日期 보낸_날짜",
    "to": "To An À Para A Aan Кому Do Till Til Kime 宛先 收件人 받는_사람",
    "subject": "Subject Betreff Objet Asunto Oggetto Assunto Onderwerp Тема Temat Ämne Emne Konu "
    "件名 主题 主旨 제목",
}
_KINDS = "|".join(
    f"(?P<{kind}>{'|'.join(label.replace('_', ' ') for label in labels.split())})"
    for kind, labels in _LABELS.items()
)
HEADER_LINE = re.compile(rf"\s*\*?(?:{_KINDS})\s?\*?\s?[:：]\*?\s*\S", re.IGNORECASE)

# The last line of a mail from a telephone.
_DEVICES = (
    "Sent from (?:my|Mail|Outlook|Yahoo|AOL|Proton|Samsung)",
    "Get Outlook for",
    "Von meinem .{1,40} gesendet",
    "Gesendet (?:von|mit)",
    "Envoyé (?:de|depuis|à partir de)",
    "Enviado (?:desde|do|a partir|con)",
    "Inviato da",
    "Verstuurd vanaf",
    "Verzonden (?:vanaf|met|vanuit)",
    "Отправлено (?:с|из)",
    "Wysłane z",
    "Skickat från",
    "Sendt fra",
    "iPhoneから送信",
    "发自我的",
    "從我的",
    "나의 .{1,20}에서 보냄",
)
DEVICE_SIGNATURE = re.compile(rf"\s*(?:{'|'.join(_DEVICES)}).{{0,80}}$", re.IGNORECASE)
