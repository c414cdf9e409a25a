"""What stands right before or behind a number that is a price, a measure, a date or a phone."""

import re

from mailonce.core.extraction.extraction import Evidence
from mailonce.core.extraction.normalise import fold

_SYMBOLS = r"[$€£¥₹₽₺₩₪₫฿₱₴₸₦]"
_CODES = (
    r"(?:usd|eur|gbp|chf|jpy|cny|rmb|inr|rub|try|brl|sek|nok|dkk|pln|czk|huf|ron|bgn|aud|cad|nzd"
    r"|sgd|hkd|mxn|ars|zar|krw|ils|aed|sar|egp|thb|idr|vnd|uah|rs|tl|kr|us)"
)
_MONEY_BEFORE = re.compile(rf"(?:{_SYMBOLS}|(?<![a-z]){_CODES}\.?|r\$) ?$")
_MONEY_AFTER = re.compile(
    rf" ?(?:{_SYMBOLS}|{_CODES}(?![a-z])|zł|zl(?![a-z])|kc(?![a-z])|ft(?![a-z])|euros?(?![a-z])"
    r"|dollars?|pounds?|reais|руб\w{0,3}|грн|円|元|圆|块|원|ريال|درهم|جنيه|रुपय)"
)
_UNIT_AFTER = re.compile(
    r" ?(?:[%‰°]|percent|prozent|-?(?:minut|second|sekund|secund|segund|minit)\w{0,4}"
    r"|(?:mins?|secs?|hours?|hrs?|days?|weeks?|months?|years?|stunden?|tagen?|tage|wochen|monate"
    r"|heures?|jours?|horas?|dias?|giorni|uur|uhr|dagen|dni|saat|dakika|saniye|gio|jam|menit|detik"
    r"|phut|godzin\w{0,2}|kg|km|cm|mm|mb|gb|kb|tb|ms|px|kwh|mwh|people|users|items|points?|punkte?"
    r"|credits|times|countries|characters|zeichen|releases|questions|issues|views|followers|likes"
    r"|минут\w{0,2}|секунд\w{0,2}|час\w{0,2}|дн\w{1,2})(?![a-zа-я])"
    r"|分(?!か)|秒|小时|小時|時|日(?!本)|年|月|个|個|点(?!击)|회|분|초|시간|일(?!회)|년|월|개|명"
    r"| of (?:our|the|your|these|those|them|all) "
    r"| (?:one-time |verification |security )?codes(?![a-z])"
    r"|دقيق|دقائق|ساع|ثاني|मिनट|घंट|सेकंड)"
)
_MONTHS = (
    r"(?:jan(?:uary|uari|uar|vier|v)?|feb(?:ruary|ruari|ruar|rero|braio)?|fev(?:rier|ereiro|r)?"
    r"|mar(?:ch|s|zo|co|z)?|marz|marca|mrt|apr(?:il|ile)?|avr(?:il)?|abr(?:il)?|may|mai|mayo|maio"
    r"|maggio|mei|maja|maj|jun[ei]?|juin|junio|junho|giugno|czerwca|jul[iy]?|juil(?:let)?|julio"
    r"|julho|luglio|lipca|aug(?:ust|ustus)?|aout|agosto|ago|sierpnia|sep(?:t|tember|tembre|tiembre)?"
    r"|set(?:embro|tembre)?|wrzesnia|o[ck]t(?:ober|obre)?|octubre|out(?:ubro)?|ottobre|pazdziernika"
    r"|nov(?:ember|embre|iembre|embro)?|listopada|de[cz](?:ember)?|decembre|diciembre|dezembro"
    r"|dicembre|dic|grudnia|stycznia|lutego|kwietnia|enero|ene|janeiro|gennaio|gen|januar"
    r"|янв(?:аря)?|фев(?:раля)?|мар(?:та)?|апр(?:еля)?|мая|июня?|июля?|авг(?:уста)?|сен(?:тября)?"
    r"|окт(?:ября)?|ноя(?:бря)?|дек(?:абря)?|ocak|subat|mart|nisan|mayis|haziran|temmuz|agustos"
    r"|eylul|ekim|kasim|aralik)"
)
_MONTH_BEFORE = re.compile(
    rf"(?<![a-zа-я]){_MONTHS}\.?,?(?: de)? (?:\d{{1,2}}(?:st|nd|rd|th)?,? )?$"
)
_QUANTITY_BEFORE = re.compile(
    r"(?<![a-z])(?:more than|less than|over|about|around|nearly|almost|up to|at least|mehr als|uber"
    r"|rund|plus de|environ|mas de|mais de|piu di|meer dan|ponad|более|больше|около) $"
)
_MASK_BEFORE = re.compile(r"[*•·x.…]{2,} ?-?$")
_PHONE_BEFORE = re.compile(r"(?:\+|\(\d{1,5}\)) ?-?$")
_HASH_BEFORE = re.compile(r"#$")
_TIME_BEFORE = re.compile(r"\d:$")
_PART_BEFORE = re.compile(r"[0-9][.,/:_]$|[/_@=&]$|[a-z0-9]\.$")
_PART_AFTER = re.compile(r"[.,/_][0-9]|[/_@=&]|\.[a-z]|-[0-9]")
_TIME_AFTER = re.compile(r":[0-9]")
_DATE = re.compile(r"(\d{2})[-](\d{2})[-](\d{2})")
_WINDOW = 40


def rejection(text: str, start: int, end: int) -> Evidence | None:
    """Say what makes the number at this place no code at all, or None."""
    before = fold(text[max(0, start - _WINDOW) : start])
    after = fold(text[end : end + _WINDOW])
    checks = (
        (_MONEY_BEFORE.search(before) or _MONEY_AFTER.match(after), Evidence.CURRENCY),
        (_PHONE_BEFORE.search(before), Evidence.PHONE),
        (_HASH_BEFORE.search(before), Evidence.HASH_SIGN),
        (_TIME_BEFORE.search(before) or _TIME_AFTER.match(after), Evidence.TIME),
        (_PART_BEFORE.search(before) or _PART_AFTER.match(after), Evidence.PART_OF_NUMBER),
        (_MASK_BEFORE.search(before), Evidence.MASKED_NUMBER),
        (_UNIT_AFTER.match(after) or _QUANTITY_BEFORE.search(before), Evidence.UNIT),
        (_MONTH_BEFORE.search(before) or _is_date(text[start:end]), Evidence.DATE),
    )
    return next((evidence for is_so, evidence in checks if is_so), None)


def _is_date(shape: str) -> bool:
    """Say whether three groups by dashes are a day, a month and a year, in any usual order."""
    match = _DATE.fullmatch(shape)
    if match is None:
        return False
    first, second, third = (int(group) for group in match.groups())
    orders = ((first, second), (second, first), (third, second))
    return any(1 <= day <= 31 and 1 <= month <= 12 for day, month in orders)
