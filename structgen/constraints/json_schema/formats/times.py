"""Dates, times and durations.

Invariant: exact, including month lengths, leap years and leap seconds. A leap second (``:60``) is allowed only if
the time in UTC is 23:59:60, which ties the hour and minute to the offset. All combinations are enumerated: an
intersection of small conditions is shorter, but the core needs three times as long to prove that it is not empty.

Source: RFC 3339, sections 5.6 and 5.7 and appendix A.
"""

from __future__ import annotations

from functools import cache

from .build import RE, alt, chars, many, maybe, seq, some

__all__ = ["date", "date_time", "duration", "time"]

_DIGIT = chars("0-9")
_TO_5 = chars("0-5")
_MINUTE = seq(_TO_5, _DIGIT)
_HOUR = alt(seq(chars("01"), _DIGIT), seq("2", chars("0-3")))
_FRACTION = maybe(seq(".", some(_DIGIT)))


@cache
def date() -> RE:
    """Return dates such as ``2024-02-29`` (``full-date`` of RFC 3339)."""
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


@cache
def _leap_second() -> RE:
    """Return the 1,440 local times at which the time in UTC is 23:59:60, each with its offsets."""
    hours = []
    for hour in range(24):
        minutes = []
        for minute in range(60):
            # East of UTC, the offset is the local time and one minute; west of it, the two add up to 23:59.
            ahead = (hour * 60 + minute + 1) % 1440
            offsets = [f"+{ahead // 60:02}:{ahead % 60:02}", f"-{23 - hour:02}:{59 - minute:02}"]
            if ahead == 0:
                offsets = ["Z", "z", offsets[0]]
            minutes.append(
                ("concat", (("literal", f"{minute:02}:60"), _FRACTION, ("literals", tuple(offsets))))
            )
        hours.append(("concat", (("literal", f"{hour:02}:"), ("alternate", tuple(minutes)))))
    return ("alternate", tuple(hours))


@cache
def time() -> RE:
    """Return times with an offset from UTC, such as ``12:30:00.5+02:00`` (``full-time`` of RFC 3339)."""
    offset = alt(chars("Zz"), seq(chars("+-"), _HOUR, ":", _MINUTE))
    ordinary = seq(_HOUR, ":", _MINUTE, ":", _MINUTE, _FRACTION, offset)
    return alt(ordinary, _leap_second())


@cache
def date_time() -> RE:
    """Return a date and a time with ``T`` between them (RFC 3339 section 5.6)."""
    return seq(date(), chars("Tt"), time())


@cache
def duration() -> RE:
    """Return ISO 8601 durations such as ``P1DT12H`` (RFC 3339 appendix A)."""
    number = some(_DIGIT)
    second = seq(number, "S")
    minute = seq(number, "M", maybe(second))
    hour = seq(number, "H", maybe(minute))
    clock = seq("T", alt(hour, minute, second))
    day = seq(number, "D")
    month = seq(number, "M", maybe(day))
    year = seq(number, "Y", maybe(month))
    return seq("P", alt(seq(alt(year, month, day), maybe(clock)), clock, seq(number, "W")))
