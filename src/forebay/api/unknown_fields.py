"""Fields of a request that nobody here knows."""

import msgspec

IGNORED_FIELDS_HEADER = "X-Forebay-Ignored-Fields"
"""Names what a request had and its answer did not heed."""
MAX_NAMES = 20
MAX_NAME_CHARS = 64

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def ignored_fields_header(body: bytes, type_: type[msgspec.Struct]) -> dict[str, str]:
    """The response header that names the top-level fields of the JSON object `body` that `type_` has not; none where
    there are none. `body` must have been decoded as `type_` before."""
    known = {field.encode_name for field in msgspec.structs.fields(type_)}
    unknown = [name for name in _fields.decode(body) if name not in known]
    if not unknown:
        return {}
    named = ", ".join(_printable(name[:MAX_NAME_CHARS]) for name in unknown[:MAX_NAMES])
    return {IGNORED_FIELDS_HEADER: named + (", ..." if len(unknown) > MAX_NAMES else "")}


def _printable(name: str) -> str:
    """What may stand in a header: others' characters would end it, or not be sent at all."""
    return "".join(each if each.isascii() and each.isprintable() and each != "," else "?" for each in name)
