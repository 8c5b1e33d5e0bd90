"""What a JSON text is held against: `jsonschema`, with exact numbers and formats checked to the letter."""

import ipaddress
import json
import re
import uuid
from datetime import date, datetime, time
from decimal import Decimal, localcontext
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.validators import validator_for

from tests.support.json_schemas import Schema

MOST_DIGITS = 20_000
"""An exponent may be long, and a remainder then needs every digit."""
MOST_EXPONENT_CHARS = 18
FORMATS = FormatChecker(formats=())


@FORMATS.checks("date", raises=ValueError)
def _date(text: object) -> bool:
    return not isinstance(text, str) or (len(text) == 10 and bool(date.fromisoformat(text)))


@FORMATS.checks("date-time", raises=ValueError)
def _date_time(text: object) -> bool:
    return not isinstance(text, str) or datetime.fromisoformat(_short(text).upper()).tzinfo is not None


@FORMATS.checks("time", raises=ValueError)
def _time(text: object) -> bool:
    return not isinstance(text, str) or time.fromisoformat(_short(text).upper()).tzinfo is not None


@FORMATS.checks("duration")
def _duration(text: object) -> bool:
    return not isinstance(text, str) or bool(
        re.fullmatch(r"P(?!$)(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?)", text)
    )


@FORMATS.checks("email")
def _email(text: object) -> bool:
    return not isinstance(text, str) or bool(re.fullmatch(r"[^@\s\"]+@([A-Za-z0-9.-]+|\[[0-9.]+\])", text))


@FORMATS.checks("hostname")
def _hostname(text: object) -> bool:
    label = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    return not isinstance(text, str) or (len(text) <= 253 and bool(re.fullmatch(rf"{label}(\.{label})*", text)))


@FORMATS.checks("ipv4", raises=ValueError)
def _ipv4(text: object) -> bool:
    return not isinstance(text, str) or bool(ipaddress.IPv4Address(text))


@FORMATS.checks("ipv6", raises=ValueError)
def _ipv6(text: object) -> bool:
    return not isinstance(text, str) or bool(ipaddress.IPv6Address(text))


@FORMATS.checks("uri", raises=ValueError)
def _uri(text: object) -> bool:
    return not isinstance(text, str) or (bool(urlsplit(text).scheme) and text.isascii() and " " not in text)


@FORMATS.checks("uuid", raises=ValueError)
def _uuid(text: object) -> bool:
    return not isinstance(text, str) or str(uuid.UUID(text)) == text.lower()


def _short(text: str) -> str:
    """Without what the standard library cannot read: fractions of more than six digits."""
    return re.sub(r"\.\d+", ".0", text)


def _number(text: str) -> Decimal:
    """An exponent of twenty digits is more than a decimal holds; a shorter one lies on the same side of every bound."""
    digits, _, exponent = text.lower().partition("e")
    return Decimal(text if len(exponent) < MOST_EXPONENT_CHARS else f"{digits}e{'-' * exponent.startswith('-')}9999")


def what_is_wrong(schema: Schema, text: str) -> str | None:
    """Why `text` is no instance of `schema`, or None. Numbers are decimal, so that multiples are exact."""
    exact = json.loads(json.dumps(schema), parse_float=Decimal)
    validator = validator_for(exact, default=Draft202012Validator)(exact, format_checker=FORMATS)
    with localcontext(prec=MOST_DIGITS):
        return next((error.message for error in validator.iter_errors(json.loads(text, parse_float=_number))), None)
