"""The command line as a whole."""

import sys
from importlib.metadata import version

from cyclopts import App

from forebay.cli.failures import forebay_errors, report

EXIT_INTERRUPTED = 130


def build_app() -> App:
    """All commands, each imported when it is run: the gateway's process must not load the engine's runtime."""
    app = App(
        name="forebay",
        version=version("forebay"),
        help="Shared, metered, fair LLM inference behind one OpenAI-compatible door.",
    )
    app.command("forebay.cli.serve:serve", help="Start the gateway and the models behind it.")
    engine = App(name="engine", help="One engine on its own.")
    engine.command("forebay.cli.engine:serve_engine", name="serve", help="Serve one model on OpenAI's API.")
    app.command(engine)
    app.command("forebay.cli.doctor:doctor", help="Say what this machine can run and what is wrong.")
    app.command("forebay.cli.settings:settings", help="Print every setting.")
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
