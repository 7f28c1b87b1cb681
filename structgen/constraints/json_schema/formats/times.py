"""Dates, times and durations.

Invariant: exact, month lengths, leap years and leap seconds included. A leap second (``:60``) stands only
where the time in UTC is 23:59:60, which ties the hour and minute to the offset; that tie is written as an
intersection of small conditions (hours, tens and units of minutes), not as the 1,440 times of a day.
Source: RFC 3339, section 5.6, 5.7 and appendix A.
"""

from __future__ import annotations

from functools import cache

from .build import RE, alt, both, chars, many, maybe, seq, some

__all__ = ["date", "date_time", "duration", "time"]

_DIGIT = chars("0-9")
_TO_5 = chars("0-5")
_MINUTE = seq(_TO_5, _DIGIT)
_HOUR = alt(seq(chars("01"), _DIGIT), seq("2", chars("0-3")))
_FRACTION = maybe(seq(".", some(_DIGIT)))


@cache
def date() -> RE:
    two = many(_DIGIT, 2, 2)
    day_28 = alt(seq("0", chars("1-9")), seq("1", _DIGIT), seq("2", chars("0-8")))
    day_30 = alt(day_28, "29", "30")
    long_months = alt("01", "03", "05", "07", "08", "10", "12")
    short_months = alt("04", "06", "09", "11")
    fours_not_00 = alt(
        seq("0", chars("48")), seq(chars("2468"), chars("048")), seq(chars("13579"), chars("26"))
    )
    leap_year = alt(seq(two, fours_not_00), seq(alt("00", fours_not_00), "00"))
    any_year = seq(
        many(_DIGIT, 4, 4),
        "-",
        alt(
            seq(long_months, "-", alt(day_30, "31")),
            seq(short_months, "-", day_30),
            seq("02-", day_28),
        ),
    )
    return alt(any_year, seq(leap_year, "-02-29"))


def _leap(hour: RE | str, minute: RE | str, offset: RE | str) -> RE:
    return seq(hour, ":", minute, ":60", _FRACTION, offset)


@cache
def _leap_second() -> RE:
    hour = many(_DIGIT, 2, 2)
    minute = many(_DIGIT, 2, 2)
    hours = [f"{h:02}" for h in range(24)]

    def offset(sign: str, h: RE | str, m: RE | str) -> RE:
        return seq(sign, h, ":", m)

    # Ahead of UTC: the local time is one minute before the offset, 00:29 at +00:30.
    same_hour = alt(*[_leap(h, minute, offset("+", h, minute)) for h in hours])
    next_unit = alt(
        *[_leap(hour, seq(_TO_5, str(u)), offset("+", hour, seq(_TO_5, str(u + 1)))) for u in range(9)]
    )
    same_ten = alt(
        *[_leap(hour, seq(str(t), _DIGIT), offset("+", hour, seq(str(t), _DIGIT))) for t in range(6)]
    )
    next_ten = alt(*[_leap(hour, f"{t}9", offset("+", hour, f"{t + 1}0")) for t in range(5)])
    next_hour = alt(*[_leap(h, "59", offset("+", hours[(i + 1) % 24], "00")) for i, h in enumerate(hours)])
    ahead = alt(both(same_hour, alt(both(next_unit, same_ten), next_ten)), next_hour)
    # Behind UTC: local time and offset add up to 23:59. -00:00 says that the offset is unknown.
    hours_add_up = alt(*[_leap(h, minute, offset("-", hours[23 - i], minute)) for i, h in enumerate(hours)])
    tens_add_up = alt(
        *[_leap(hour, seq(str(t), _DIGIT), offset("-", hour, seq(str(5 - t), _DIGIT))) for t in range(6)]
    )
    units_add_up = alt(
        *[_leap(hour, seq(_TO_5, str(u)), offset("-", hour, seq(_TO_5, str(9 - u)))) for u in range(10)]
    )
    behind = both(hours_add_up, tens_add_up, units_add_up)
    return alt(_leap("23", "59", chars("Zz")), ahead, behind)


@cache
def time() -> RE:
    offset = alt(chars("Zz"), seq(chars("+-"), _HOUR, ":", _MINUTE))
    ordinary = seq(_HOUR, ":", _MINUTE, ":", _MINUTE, _FRACTION, offset)
    return alt(ordinary, _leap_second())


@cache
def date_time() -> RE:
    return seq(date(), chars("Tt"), time())


@cache
def duration() -> RE:
    number = some(_DIGIT)
    second = seq(number, "S")
    minute = seq(number, "M", maybe(second))
    hour = seq(number, "H", maybe(minute))
    clock = seq("T", alt(hour, minute, second))
    day = seq(number, "D")
    month = seq(number, "M", maybe(day))
    year = seq(number, "Y", maybe(month))
    return seq("P", alt(seq(alt(year, month, day), maybe(clock)), clock, seq(number, "W")))
