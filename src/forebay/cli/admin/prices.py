"""`forebay price …`."""

import sys
import time
from decimal import Decimal
from typing import Annotated, Any

from cyclopts import Parameter

from forebay.administration.kinds import PRICES
from forebay.cli.admin.calling import Via
from forebay.cli.admin.inputs import unix_time
from forebay.cli.admin.resources import create_resource, delete_resource, list_resources
from forebay.metering.pricing import ANY, PriceClass

ClassFlag = Annotated[PriceClass, Parameter(name="--class", help="Priority class.")]


def set_(
    model: Annotated[str, Parameter(help="A pool's name; without it, whatever has no price of its own.")] = ANY,
    /,
    *,
    prompt: Annotated[Decimal, Parameter(help="US dollars for a million prompt tokens.")],
    output: Annotated[Decimal, Parameter(help="US dollars for a million output tokens.")],
    cached: Annotated[
        Decimal | None, Parameter(help="US dollars for a million cached prompt tokens; else as --prompt.")
    ] = None,
    class_: ClassFlag = ANY,
    from_: Annotated[
        str | None, Parameter(name="--from", help="When it begins, in UTC; else now. A date or a time.")
    ] = None,
    via: Via | None = None,
) -> int:
    """Set what tokens cost from some time on: a new version, as those that have begun are never changed."""
    body: dict[str, Any] = {
        "model": model,
        "priority": class_,
        "prompt_usd_per_million": prompt,
        "output_usd_per_million": output,
    }
    if cached is not None:
        body["cached_usd_per_million"] = cached
    if from_ is not None:
        body["effective_from"] = unix_time(from_, "--from")
    code = create_resource(via, PRICES, body)
    if code == 0 and body.get("effective_from", 0.0) < time.time() and from_ is not None:
        print(
            "Note: that time is past, so this price counts at once, and it can never be changed or deleted; another "
            "price can follow it.",
            file=sys.stderr,
        )
    return code


def list_(
    *,
    model: Annotated[str | None, Parameter(help="Only those of this model.")] = None,
    class_: Annotated[PriceClass | None, Parameter(name="--class", help="Only those of this class.")] = None,
    via: Via | None = None,
) -> int:
    """List prices, with those that are over and those to come."""
    return list_resources(via, PRICES, {"model": model, "priority": class_})


def delete(
    price: Annotated[str, Parameter(help="The price's id, as `forebay price list` shows it.")],
    /,
    *,
    via: Via | None = None,
) -> int:
    """Delete a price that has not begun."""
    return delete_resource(via, PRICES, price)
