"""Scalars of pydantic's core schema as JSON Schema: strings, bytes, times, numbers, enums, literals.

Why: pydantic's own schema says less than its validation requires. Here every text of the schema validates: bounds
of times are decided on the text, patterns are in the dialect that checks them, and bounds allow for rounding.

Invariant: pydantic accepts every text of the schema for its type.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import re
from typing import Any

from pydantic import EncodedBytes
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from . import patterns
from .readable import Unreadable, check_values

__all__ = ["Describer", "ScalarSchemas"]

Schema = dict[str, Any]

_BYTE_SIZE = r"^\s*(\d*\.?\d+)\s*(\w+)?"
"""The pattern of `pydantic.ByteSize`, which rejects most of what this matches."""
_MAX_INTEGER = 2**63 - 1024  # the largest below 2**63 that a float can be
_MAX_EXACT = 2**53
_MAX_FLOAT = 1e300
_MAX_PLACES = 30
_MAX_MULTIPLES = 10**6
"""Limit for multiples of a float: beyond it, the remainder of a division is more than rounding."""
_MAX_SUMS = 4096
_BOUNDS = (
    ("ge", "minimum"),
    ("gt", "exclusiveMinimum"),
    ("le", "maximum"),
    ("lt", "exclusiveMaximum"),
    ("multiple_of", "multipleOf"),
)


class Describer(GenerateJsonSchema):
    """Pydantic's own schema, without warnings."""

    # Pydantic warns of defaults that JSON cannot state, which do not affect generation.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012


class ScalarSchemas(Describer):
    """One method for each kind of scalar."""

    def str_schema(self, schema: core_schema.StringSchema) -> Schema:
        """Describe strings after white space is stripped; patterns are in the dialect that checks them."""
        result = super().str_schema(schema)
        pattern = schema.get("pattern")
        if isinstance(pattern, re.Pattern):
            letters = "".join(letter for letter in "imsxa" if pattern.flags & getattr(re, letter.upper()))
            result["pattern"] = f"(?{letters}){pattern.pattern}" if letters else pattern.pattern
            result["x-pattern-dialect"] = "python"
        elif pattern == _BYTE_SIZE:
            result["pattern"] = patterns.BYTE_SIZE
        elif pattern is not None:
            engine = schema.get("regex_engine") or self._config.regex_engine
            result["x-pattern-dialect"] = "python" if engine == "python-re" else "rust"
        forms = []
        strips = schema.get("strip_whitespace")
        if strips or strips is None and self._config.str_strip_whitespace:
            forms += [patterns.STRIPPED] if result.keys() & {"minLength", "pattern"} else []
        if schema.get("ascii_only"):
            forms += [patterns.ASCII]
        return _with_forms(result, forms)

    def bytes_schema(self, schema: core_schema.BytesSchema) -> Schema:
        """Describe bytes as a string. A limited length counts bytes, so characters are then ASCII."""
        result: Schema = {"type": "string"}
        coding = self._config.val_json_bytes
        low, high = schema.get("min_length", 0), schema.get("max_length")
        if coding == "utf8":
            if low or high is not None:
                return {**result, "pattern": f"^[\\x00-\\x7f]{{{low},{'' if high is None else high}}}$"}
            return result
        if coding == "hex":
            return {**result, "pattern": f"^(?:[0-9a-fA-F]{{2}}){{{low},{'' if high is None else high}}}$"}
        if low or high is not None:
            raise Unreadable("limits on the length of bytes that are written as base64 are not supported")
        return {**result, "format": "base64url"}

    def function_after_schema(self, schema: core_schema.AfterValidatorFunctionSchema) -> Schema:
        """Refuse encoded bytes that `val_json_bytes` would decode a second time."""
        decoder = getattr(schema["function"]["function"], "__self__", None)
        inner: Any = schema["schema"]
        if (
            isinstance(decoder, EncodedBytes)
            and inner["type"] == "bytes"
            and self._config.val_json_bytes != "utf8"
        ):
            raise Unreadable(
                f"its encoded bytes are decoded twice, by val_json_bytes={self._config.val_json_bytes!r} first",
                "Declare them as bytes, which that option decodes, or remove the option.",
            )
        return super().function_after_schema(schema)

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> Schema:
        """Describe a datetime with bounds decided on the text; the zone is then that of the bounds."""
        zone, given = schema.get("tz_constraint"), _bounds_of(schema)
        days = _days_of(schema.get("now_op"))
        if not given:
            return _text(patterns.date_time(zone, days=days))
        aware = [bound.tzinfo is not None for bound in given.values()]
        if any(aware) != all(aware) or isinstance(zone, int):
            raise Unreadable("bounds with and without a time zone, or with a fixed one, are not supported")
        if any(aware):
            given = {name: bound.astimezone(datetime.UTC) for name, bound in given.items()}
        try:
            bounds = _seconds({name: bound.replace(tzinfo=None) for name, bound in given.items()})
        except OverflowError:
            return {"not": {}}
        return _text(patterns.date_time(0 if any(aware) or zone == "aware" else "naive", bounds, days))

    def time_schema(self, schema: core_schema.TimeSchema) -> Schema:
        """Describe a time with bounds decided on the text."""
        zone, given = schema.get("tz_constraint"), _bounds_of(schema)
        if not given:
            return _text(patterns.time(zone))
        if zone not in (None, "naive") or any(bound.tzinfo is not None for bound in given.values()):
            raise Unreadable("bounds of times with a time zone are not supported")
        day = datetime.date(2000, 1, 1)
        bounds = _seconds({name: datetime.datetime.combine(day, bound) for name, bound in given.items()})
        texts = (bounds.first, bounds.last, bounds.last_with_fraction)
        if any(text is not None and not text.startswith(day.isoformat()) for text in texts[:2]):
            return {"not": {}}
        of_day = [
            None if text is None else text[11:] if text.startswith("2000-01-01") else None for text in texts
        ]
        return _text(patterns.time("naive", patterns.Bounds(*of_day)))

    def date_schema(self, schema: core_schema.DateSchema) -> Schema:
        """Describe a date with bounds decided on the text."""
        day = datetime.timedelta(days=1)
        try:
            after = [schema["gt"] + day] if "gt" in schema else []
            before = [schema["lt"] - day] if "lt" in schema else []
        except OverflowError:
            return {"not": {}}
        first = [*after, schema["ge"]] if "ge" in schema else after
        last = [*before, schema["le"]] if "le" in schema else before
        today = datetime.date.today()
        first += [today + day] if schema.get("now_op") == "future" else []
        last += [today - day] if schema.get("now_op") == "past" else []
        return _text(patterns.date(max(first, default=None), min(last, default=None)))

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> Schema:
        """Describe a duration. With bounds it is written in whole seconds, so that they are decided on the text."""
        given = {name: bound.total_seconds() for name, bound in _bounds_of(schema).items()}
        low = [math.ceil(given["ge"])] if "ge" in given else []
        low += [math.floor(given["gt"]) + 1] if "gt" in given else []
        high = [math.floor(given["le"])] if "le" in given else []
        high += [math.ceil(given["lt"]) - 1] if "lt" in given else []
        if not low and not high:
            return _text(patterns.DURATION)
        first, last = max(low, default=None), min(high, default=None)
        if first is not None and last is not None and first > last:
            raise Unreadable("no whole number of seconds is within the bounds")
        return _text(patterns.duration(first, last))

    def uuid_schema(self, schema: core_schema.UuidSchema) -> Schema:
        """Describe a UUID, of one version if the type states it."""
        return _text(patterns.uuid(schema.get("version")))

    def url_schema(self, schema: core_schema.UrlSchema) -> Schema:
        """Describe a URL with one of the allowed schemes, up to the maximum length."""
        result = _text(patterns.url(schema.get("allowed_schemes")))
        if "max_length" in schema:
            result["maxLength"] = schema["max_length"]
        return result

    def multi_host_url_schema(self, schema: core_schema.MultiHostUrlSchema) -> Schema:
        """Describe a URL with one host."""
        return self.url_schema(schema)  # type: ignore[arg-type]

    def int_schema(self, schema: core_schema.IntSchema) -> Schema:
        """Describe integers of 64 bits: of larger ones, pydantic accepts `12` but neither `12.0` nor `1.2e1`."""
        # `9007199254740995.0` is a multiple of 5, but the float that pydantic converts it to is not.
        return _within(super().int_schema(schema), _MAX_EXACT if "multiple_of" in schema else _MAX_INTEGER)

    def float_schema(self, schema: core_schema.FloatSchema) -> Schema:
        """Describe floats. If infinity is not allowed, a number that would be converted to infinity is not a text."""
        result = super().float_schema(schema)
        # A number beyond a bound may be rounded to the bound; no number beyond the next float is.
        if "exclusiveMinimum" in result:
            result["minimum"] = max(
                math.nextafter(result.pop("exclusiveMinimum"), math.inf), result.get("minimum", -math.inf)
            )
        if "exclusiveMaximum" in result:
            result["maximum"] = min(
                math.nextafter(result.pop("exclusiveMaximum"), -math.inf), result.get("maximum", math.inf)
            )
        is_finite = schema.get("allow_inf_nan", self._config.config_dict.get("allow_inf_nan", True)) is False
        if "multipleOf" in result:
            return _within(result, result["multipleOf"] * _MAX_MULTIPLES)
        return _within(result, _MAX_FLOAT) if is_finite else result

    def complex_schema(self, schema: core_schema.ComplexSchema) -> Schema:
        """Describe a complex number with both parts, each of at most 12 digits on either side of the point."""
        return _text(r"^-?[0-9]{1,12}(?:\.[0-9]{1,12})?[+-][0-9]{1,12}(?:\.[0-9]{1,12})?j$")

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> Schema:
        """Describe a number within the bounds; without bounds also a text, since only a text keeps every digit."""
        number: Schema = {"type": "number"}
        for name, keyword in _BOUNDS:
            if name in schema:
                upwards = {"ge": True, "gt": True, "le": False, "lt": False}.get(name)
                number[keyword] = _number(schema[name], upwards)  # type: ignore[literal-required]
        if "multipleOf" in number:  # remainders are computed with 28 digits
            number = _within(number, number["multipleOf"] * 10.0**26)
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        if digits is None and places is None:
            is_plain = number.keys() == {"type"}
            number = _within(number, _MAX_FLOAT)
            return {"anyOf": [number, _text(patterns.DECIMAL)]} if is_plain else number
        number = _within(number, _MAX_FLOAT)
        if digits is None:
            form: Schema = {"multipleOf": _number(f"1e-{min(places or 0, _MAX_PLACES)}")}
        elif places is None:  # any number of the digits may follow the point
            max_value = min(digits, _MAX_PLACES)
            form = {"anyOf": [_digits(digits - after, after) for after in range(max_value + 1)]}
        else:  # `places` digits are reserved for the fraction, used or not
            form = _digits(max(0, digits - places), min(places, digits, _MAX_PLACES))
        return {"type": "number", "allOf": [number, form]}

    def enum_schema(self, schema: core_schema.EnumSchema) -> Schema:
        """Describe an enum; a flag may be any combination of members, of which pydantic lists only the members."""
        if not schema["members"]:
            raise Unreadable("it has no members", "Give the enum at least one member.")
        result = super().enum_schema(schema)
        if not issubclass(schema["cls"], enum.Flag):
            check_values(schema, [member.value for member in schema["members"]])
            return result
        sums = {0}
        for member in schema["cls"]:
            if len(sums) > _MAX_SUMS // 2:
                return result
            sums |= {known | member.value for known in sums}
        return {**result, "enum": sorted(sums)}

    def literal_schema(self, schema: core_schema.LiteralSchema) -> Schema:
        """Describe literals that JSON has."""
        check_values(schema, schema["expected"])
        return super().literal_schema(schema)


def _within(schema: Schema, max_value: int | float) -> Schema:
    """Return the schema with the bounds ``-max_value`` and ``max_value`` on the sides without bounds."""
    if not schema.keys() & {"minimum", "exclusiveMinimum"}:
        schema = {**schema, "minimum": -max_value}
    if not schema.keys() & {"maximum", "exclusiveMaximum"}:
        schema = {**schema, "maximum": max_value}
    return schema


def _digits(before: int, after: int) -> Schema:
    """Return numbers with at most `before` digits before the point and `after` after it."""
    bound = 10**before
    form: Schema = {
        "multipleOf": _number(f"1e-{after}"),
        "exclusiveMinimum": -bound,
        "exclusiveMaximum": bound,
    }
    return form if before else {**form, "not": {"const": 0}}  # pydantic counts the 0 itself as a digit


def _text(pattern: str) -> Schema:
    return {"type": "string", "pattern": pattern}


def _number(value: Any, upwards: bool | None = None) -> Any:
    """Return a number as JSON writes it: an int if it is whole, so that no digit is lost.

    If no float equals `value`, return the next one upwards or downwards, so that a bound gets narrower.
    """
    exact = decimal.Decimal(value)
    if exact == exact.to_integral_value() and abs(exact) < decimal.Decimal(10) ** 30:
        return int(exact)
    number = float(exact)
    if decimal.Decimal(repr(number)) == exact:
        return number
    if upwards is None:
        raise Unreadable(f"{value} has more digits than a float", "Use a multiple_of with up to 15 digits.")
    below = decimal.Decimal(repr(number)) < exact
    return math.nextafter(number, math.inf if upwards else -math.inf) if below == upwards else number


def _with_forms(schema: Schema, forms: list[str]) -> Schema:
    """Return the schema of a string that also has these forms."""
    if not forms:
        return schema
    if "pattern" not in schema and len(forms) == 1:
        return {**schema, "pattern": forms[0]}
    return {**schema, "allOf": [{"pattern": form} for form in forms]}


def _days_of(now_op: str | None) -> str:
    """Return the condition on the day of a time that is in the past or future today, in any time zone."""
    today, margin = datetime.date.today(), datetime.timedelta(days=2)
    if now_op == "past":
        return patterns.days_within(None, today - margin)
    return patterns.days_within(today + margin, None) if now_op == "future" else ""


def _bounds_of(schema: Any) -> dict[str, Any]:
    return {name: schema[name] for name in ("gt", "ge", "lt", "le") if name in schema}


def _seconds(given: dict[str, datetime.datetime]) -> patterns.Bounds:
    """Return the bounds in whole seconds, at least as narrow as `given`, which has pydantic's names for them."""
    second = datetime.timedelta(seconds=1)
    whole = {name: bound.replace(microsecond=0) for name, bound in given.items()}
    first, last, fractions = [], [], []
    if "gt" in given:
        first.append(whole["gt"] + second)
    if "ge" in given:
        first.append(whole["ge"] if whole["ge"] == given["ge"] else whole["ge"] + second)
    if "le" in given:
        last.append(whole["le"])
        fractions.append(whole["le"] - second)
    if "lt" in given:
        last.append(whole["lt"] if whole["lt"] != given["lt"] else whole["lt"] - second)
        fractions.append(whole["lt"] - second)
    ends = max(first, default=None), min(last, default=None), min(fractions, default=None)
    return patterns.Bounds(*(None if end is None else end.isoformat() for end in ends))
