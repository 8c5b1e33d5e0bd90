"""The commands for operators, each imported when it is run."""

from collections.abc import Mapping

from cyclopts import App

from forebay.cli.help import wide_flags

PACKAGE = "forebay.cli.admin"

Commands = Mapping[str | tuple[str, ...], tuple[str, str]]
"""Its name, or names → the function, and what `--help` says of it."""

GROUPS: Mapping[str, tuple[str, Commands]] = {
    "tenant": (
        "The teams that may call.",
        {
            "create": ("tenants:create", "Create a tenant."),
            "list": ("tenants:list_", "List all tenants."),
            "show": ("tenants:show", "Show a tenant."),
            "set": ("tenants:set_", "Change what is given of a tenant."),
            "delete": ("tenants:delete", "Delete a tenant that has no keys and no quotas."),
        },
    ),
    "key": (
        "The API keys of tenants.",
        {
            "create": ("keys:create", "Create a key; its secret is printed now and never again."),
            "list": ("keys:list_", "List keys, without their secrets."),
            "show": ("keys:show", "Show a key, without its secret."),
            "set": (
                "keys:set_",
                "Change what is given of a key: scopes and models are replaced as a whole, tags one by one.",
            ),
            "rotate": ("keys:rotate", "Give a key a new secret, which is printed now and never again."),
            ("revoke", "delete"): ("keys:revoke", "Delete a key: whoever uses it is refused from then on."),
        },
    ),
    "quota": (
        "How much tenants and keys may use.",
        {
            "set": (
                "quotas:set_",
                "Set limits of a tenant, of its use of one alias, or of one key; what is not given stays.",
            ),
            "list": ("quotas:list_", "List quotas."),
            "show": ("quotas:show", "Show a quota."),
            "delete": ("quotas:delete", "Delete a quota: nothing of it is limited any more."),
        },
    ),
    "price": (
        "What tokens cost, and from when on.",
        {
            "set": (
                "prices:set_",
                "Set what tokens cost from some time on: a new version, as those that have begun are never changed.",
            ),
            "list": ("prices:list_", "List prices, with those that are over and those to come."),
            "delete": ("prices:delete", "Delete a price that has not begun."),
        },
    ),
    "prompt": (
        "The platform's own prompts, whose cached blocks all tenants share.",
        {
            "set": ("prompts:set_", "Register a prompt, or change what is given of it."),
            "list": ("prompts:list_", "List the platform's prompts."),
            "show": ("prompts:show", "Show a prompt with its whole text."),
            "delete": ("prompts:delete", "Delete a prompt: its blocks are shared no more."),
        },
    ),
    "audit": (
        "Who changed what.",
        {"list": ("audit:list_", "List changes, newest first; --json has each with what was before and after.")},
    ),
    "usage": (
        "What was used, and what it cost.",
        {
            "report": ("usage:report", "A month's chargeback, printed and, if asked for, written as CSV or Parquet."),
            "show": ("usage:show", "Usage of any time, grouped as asked for."),
            "reconcile": (
                "reconcile:reconcile_usage",
                "Compare what is billed with what the engines' logs say; the exit code is 1 where they differ.",
            ),
        },
    ),
    "db": (
        "The configuration's database itself, whether or not a gateway runs.",
        {
            "backup": (
                "database:backup",
                "Write all of the configuration and the audit log to a file; gateways may run meanwhile.",
            ),
            "restore": (
                "database:restore",
                "Put a backup into an empty database, of any kind; start the gateways on it anew afterwards.",
            ),
            "migrate": (
                "database:migrate",
                "Bring the tables to this Forebay's version, which forebay serve also does when it starts.",
            ),
        },
    ),
}
APPLY = "Make tenants, keys, quotas, prices and prompts as a file declares them; a second time there is nothing to do."


def add_admin_commands(app: App) -> None:
    for name, (text, commands) in GROUPS.items():
        group = App(name=name, help=text)
        for names, (place, help_) in commands.items():
            group.command(f"{PACKAGE}.{place}", name=names, help=help_, help_formatter=wide_flags())
        app.command(group)
    app.command(f"{PACKAGE}.apply:apply", help=APPLY, help_formatter=wide_flags())
