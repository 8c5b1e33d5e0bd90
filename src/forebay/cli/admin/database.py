"""`forebay db …`: on the database itself, whether or not a gateway runs."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from forebay.config.loading import load_config, process_environment
from forebay.wiring.database import backup_database, database_url, migrate_database, restore_database

DatabaseFlag = Annotated[
    str | None,
    Parameter(help="sqlite:///PATH or postgresql://USER:PASSWORD@HOST/NAME; else that of the configuration."),
]
ConfigFlag = Annotated[Path | None, Parameter(help="TOML file of the configuration, as `forebay serve` takes it.")]


def backup(
    file: Annotated[Path, Parameter(help="The file to write; what is there is replaced.")],
    /,
    *,
    database: DatabaseFlag = None,
    config: ConfigFlag = None,
) -> int:
    """Write all of the configuration and the audit log to a file, as of one moment; gateways may run meanwhile."""
    rows = backup_database(_url(database, config), file)
    print(f"{_rows(rows)} in {file}. It has the hashes of keys in it: keep it as you keep the database.")
    return 0


def restore(
    file: Annotated[Path, Parameter(help="What `forebay db backup` wrote.")],
    /,
    *,
    force: Annotated[
        bool, Parameter(help="Delete what the database holds now, its audit log too.", negative="")
    ] = False,
    database: DatabaseFlag = None,
    config: ConfigFlag = None,
) -> int:
    """Put a backup into an empty database, of any kind; start the gateways on it anew afterwards."""
    rows = restore_database(_url(database, config), file, force=force)
    if force:
        print(
            "Note: the audit log is the backup's too: what was changed since is not in it. Gateways that use this "
            "database must be restarted: until then they go on with the configuration that was.",
            file=sys.stderr,
        )
    print(f"{_rows(rows)} restored. Start the gateways that use this database anew.")
    return 0


def migrate(
    *,
    to: Annotated[str | None, Parameter(help="A version; else the newest.")] = None,
    database: DatabaseFlag = None,
    config: ConfigFlag = None,
) -> int:
    """Bring the database's tables to this Forebay's version, which `forebay serve` also does when it starts."""
    version = migrate_database(_url(database, config), to)
    print(f"The tables are of version {version}.")
    return 0


def _rows(number: int) -> str:
    return "1 row is" if number == 1 else f"{number:,} rows are"


def _url(database: str | None, config: Path | None) -> str:
    """The configuration is read only where it is needed."""
    if database is not None:
        return database
    loaded = load_config(config, process_environment())
    return database_url(loaded.config.storage.database, loaded.data_dir)
