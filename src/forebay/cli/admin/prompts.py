"""`forebay prompt …`: the platform's own prompts."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from forebay.administration.kinds import PROMPTS
from forebay.cli.admin.calling import Via
from forebay.cli.admin.inputs import INPUT, text_of
from forebay.cli.admin.resources import delete_resource, list_resources, set_resource, show_resource
from forebay.core.errors import InvalidRequest

PromptArgument = Annotated[str, Parameter(help="The prompt's id.")]


def set_(
    prompt: PromptArgument,
    /,
    *,
    file: Annotated[Path | None, INPUT, Parameter(help="Its text, all of the file; - is standard input.")] = None,
    model: Annotated[
        tuple[str, ...] | None, Parameter(help="An alias that it is for; may be repeated.", negative="")
    ] = None,
    all_models: Annotated[bool, Parameter(help="It is for every alias.", negative="")] = False,
    via: Via | None = None,
) -> int:
    """Register a prompt whose cached blocks all tenants share, or change what is given of it."""
    if model is not None and all_models:
        raise InvalidRequest("--model and --all-models: give one of the two.")
    patch: dict[str, Any] = {}
    if file is not None:
        patch["text"] = text_of(file, "--file")
    if model is not None or all_models:
        patch["models"] = model
    return set_resource(via, PROMPTS, prompt, {"id": prompt}, patch)


def list_(*, via: Via | None = None) -> int:
    """List the platform's prompts."""
    return list_resources(via, PROMPTS)


def show(prompt: PromptArgument, /, *, via: Via | None = None) -> int:
    """Show a prompt with its whole text."""
    return show_resource(via, PROMPTS, prompt)


def delete(prompt: PromptArgument, /, *, via: Via | None = None) -> int:
    """Delete a prompt: its blocks are shared no more."""
    return delete_resource(via, PROMPTS, prompt)
