"""Says once that kernels are being compiled, so that a first call that takes seconds is understood."""

import sys
from typing import Any

from numba.core import event


class _Notice(event.Listener):
    """Hears of every function that Numba compiles; one that comes from the cache on disk is none."""

    said = False

    def on_start(self, event: Any) -> None:
        ours = event.data["dispatcher"].py_func.__module__.startswith("minitx.")
        if ours and not self.said:
            self.said = True
            print(
                "minitx: compiling kernels for this machine, once; `minitx warmup` does it ahead.",
                file=sys.stderr,
            )

    def on_end(self, event: Any) -> None:
        """The end needs no word."""


_notice = _Notice()


def watch() -> None:
    """Begin to listen."""
    event.register("numba:compile", _notice)


def hush() -> None:
    """Say nothing: whoever compiles ahead shows its own progress."""
    _notice.said = True
