"""`forebay apply`: make what is there as a file declares it."""

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from rich.console import Console

from forebay.cli.admin.api import AdminApi, AdminFailure, Row
from forebay.cli.admin.applying import apply_plan
from forebay.cli.admin.calling import Via, calling, tell_failure
from forebay.cli.admin.inputs import INPUT, STANDARD_INPUT
from forebay.cli.admin.known_names import name_problems, read_known_names
from forebay.cli.admin.plan import Change, Plan, State, make_plan
from forebay.cli.admin.plan_text import DONE, plan_json, print_plan, subject
from forebay.cli.admin.platform_file import read_platform_file
from forebay.cli.admin.state import read_state
from forebay.cli.admin.tables import print_json
from forebay.cli.failures import EXIT_FAILED
from forebay.config.loading import load_config, process_environment
from forebay.core.errors import InvalidRequest


def apply(
    *,
    file: Annotated[Path, INPUT, Parameter(name=("--file", "-f"), help="The YAML file; - is standard input.")],
    dry_run: Annotated[bool, Parameter(help="Print the plan and change nothing.", negative="")] = False,
    prune: Annotated[
        bool, Parameter(help="Delete what is not in the file, of the kinds that it has a section for.", negative="")
    ] = False,
    yes: Annotated[
        bool, Parameter(name=("--yes", "-y"), help="Do not ask before changes are made.", negative="")
    ] = False,
    via: Via | None = None,
) -> int:
    """Make tenants, keys, quotas, prices and prompts as a file declares them; a second time there is nothing to do."""
    declaration = read_platform_file(file)
    own_tenant = _operators_tenant(via) if prune else None

    async def work(api: AdminApi, via: Via) -> int:
        state = await read_state(api)
        plan = make_plan(declaration, state, now=api.gateways_time(), prune=prune, own_tenant=own_tenant)
        problems = [*plan.problems, *name_problems(plan, declaration, await read_known_names(api, state))]
        if problems:
            raise InvalidRequest("\n".join(f"{file}: {problem}" for problem in problems))
        run = _Run(plan, via.json)
        if dry_run or not plan.changes:
            run.print_plan()
            return 0
        _require_consent(run, yes=yes, from_input=str(file) == STANDARD_INPUT)
        return await run.carry_out(api, state)

    return calling(via, work)


def _operators_tenant(via: Via | None) -> str:
    """That of the local configuration's operator. Raises ConfigurationError."""
    return load_config(via.config if via else None, process_environment()).config.tenancy.default_tenant


class _Run:
    """Carries a plan out, and tells of it."""

    def __init__(self, plan: Plan, as_json: bool) -> None:
        self._plan = plan
        self._as_json = as_json
        self._console = Console(soft_wrap=True, highlight=False)
        self._done: list[tuple[Change, Row | None]] = []

    def print_plan(self) -> None:
        if self._as_json:
            self._print_json(None)
        else:
            print_plan(self._plan, self._console)

    def say_plan(self) -> None:
        if not self._as_json:
            print_plan(self._plan, self._console)

    async def carry_out(self, api: AdminApi, state: State) -> int:
        try:
            await apply_plan(api, self._plan, state, self._tell)
        except AdminFailure as failure:
            return self._tell_failure(failure)
        if self._as_json:
            self._print_json(None)
        else:
            self._console.print("Done.")
        return 0

    def _tell(self, change: Change, row: Row | None) -> None:
        self._done.append((change, row))
        if self._as_json:
            return
        self._console.print(f"{DONE[change.action]} {subject(change)}", markup=False)
        if row is not None and "secret" in row:
            print(f"The key {row['id']} has this secret, which is shown only now:\n\n{row['secret']}\n", flush=True)

    def _tell_failure(self, failure: AdminFailure) -> int:
        """What was done is done: the same file, once mended, does the rest."""
        failed, *rest = self._plan.changes[len(self._done) :]
        tell_failure(failure)
        if self._as_json:
            self._print_json(failure)
            return EXIT_FAILED
        told = Console(file=sys.stderr, soft_wrap=True, highlight=False)
        told.print(f"Failed at: {failed.action} {subject(failed)}. Done before: {len(self._done)}.", markup=False)
        for change in rest:
            told.print(f"Not done: {change.action} {subject(change)}", markup=False)
        told.print("Run it again once that is mended: what is done already stays and is not done twice.")
        return EXIT_FAILED

    def _print_json(self, failure: AdminFailure | None) -> None:
        """New keys with their secrets are among the `results`."""
        body: dict[str, Any] = {
            **plan_json(self._plan),
            "done": len(self._done),
            "results": [row for _, row in self._done],
            "failure": None if failure is None else {"title": failure.title, "detail": failure.detail},
        }
        print_json(msgspec.json.encode(body))


def _require_consent(run: _Run, *, yes: bool, from_input: bool) -> None:
    """Raises InvalidRequest where it is not given."""
    run.say_plan()
    if yes:
        return
    if from_input or not sys.stdin.isatty():
        raise InvalidRequest(
            "Nobody can be asked here whether to do this: say --yes, or --dry-run to see the plan only."
        )
    if input("Do this? [y/N] ").strip().lower() not in {"y", "yes"}:
        raise InvalidRequest("Nothing was changed: it was not confirmed.")
