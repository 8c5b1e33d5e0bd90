"""Standard output and error of a server: worth having, but nothing to die of."""

import io
import sys
from contextlib import suppress
from typing import TextIO


class LossyStream(io.TextIOBase):
    """Writes to `stream`; what that does not take (its disk is full, its reader is gone) is lost without a word."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str, /) -> int:
        # A ValueError is how a closed file answers.
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()

    def close(self) -> None:
        """Nothing: the stream belongs to the interpreter."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]  # a plain attribute in typeshed
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]  # likewise
        return self._stream.errors


def outlive_output() -> None:
    """From now on this process goes on, and ends well, whether or not its output can be written."""
    sys.stdout = LossyStream(sys.stdout)
    sys.stderr = LossyStream(sys.stderr)
