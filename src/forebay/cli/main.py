"""The command line as a whole."""

import sys
from importlib.metadata import version

from cyclopts import App

from forebay.cli.admin.commands import add_admin_commands
from forebay.cli.failures import forebay_errors, report
from forebay.cli.help import DEFAULTS, wide_flags
from forebay.fleet.drivers.local import REPLICA_KEY_VARIABLE

EXIT_INTERRUPTED = 130


def build_app() -> App:
    """All commands, each imported when it is run: the gateway's process must not load the engine's runtime."""
    app = App(
        name="forebay",
        version=version("forebay"),
        help="Serve language models, on this machine or elsewhere, behind one OpenAI-compatible door.",
        default_parameter=DEFAULTS,
    )
    app.command(
        "forebay.cli.serve:serve",
        help="Start the gateway and the models behind it; Ctrl-C or SIGTERM lets running requests end and stops all.",
    )
    engine = App(name="engine", help="One engine on its own.")
    engine.command(
        "forebay.cli.engine:serve_engine",
        name="serve",
        help="Serve one model on OpenAI's API with vLLM's extensions. Callers must send the key in the environment "
        f"variable {REPLICA_KEY_VARIABLE}, where that is set.",
        help_formatter=wide_flags(),
    )
    app.command(engine)
    app.command(
        "forebay.cli.doctor:doctor",
        help="Say what this machine can run and what is wrong, each with what to do; exit code 1 where anything is.",
    )
    app.command(
        "forebay.cli.settings:settings",
        help="Print every setting with its type, its default and what it does, as a Markdown table.",
    )
    add_admin_commands(app)
    return app


def main() -> None:
    """Run one command line and exit: 0 well, 1 failed, 78 what trying again does not mend, 130 interrupted."""
    try:
        code = build_app()(result_action="return_value")
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        ours = forebay_errors(error)
        if ours is None:
            raise
        sys.exit(report(ours))
    sys.exit(code if isinstance(code, int) else 0)
