"""The IPython in which student cells run, and what they print and show."""

from __future__ import annotations

import builtins
import io
import sys
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

MAX_TEXT = 1 << 20  # characters printed by one cell or one call before it is stopped
MAX_RICH = 8 << 20  # bytes of pictures and tables kept of one cell
KEPT_TYPES = (
    "text/plain",
    "text/html",
    "text/latex",
    "text/markdown",
    "image/png",
    "image/jpeg",
    "image/svg+xml",
)


class OutputLimit(RuntimeError):
    """Student code printed more than is kept."""


class Tape:
    """Everything that one cell shows, in order, as nbformat 4 outputs."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self.text = 0
        self.rich = 0

    def stream(self, name: str, text: str) -> None:
        if not text:
            return
        self.text += len(text)
        if self.text > MAX_TEXT:
            raise OutputLimit(f"more than {MAX_TEXT:,} characters were printed")
        last = self.outputs[-1] if self.outputs else {}
        if last.get("output_type") == "stream" and last["name"] == name:
            last["text"] += text
        else:
            self.outputs.append({"output_type": "stream", "name": name, "text": text})

    def show(self, kind: str, data: dict[str, Any], **more: Any) -> None:
        kept = {key: data[key] for key in KEPT_TYPES if isinstance(data.get(key), str)}
        self.rich += sum(map(len, kept.values()))
        if self.rich > MAX_RICH:
            raise OutputLimit(f"more than {MAX_RICH:,} bytes of pictures and tables were shown")
        self.outputs.append({"output_type": kind, "data": kept, "metadata": {}, **more})


class TapeStream(io.TextIOBase):
    """A text stream that writes to the shell's current tape."""

    encoding = "utf-8"

    def __init__(self, shell: StudentShell, name: str) -> None:
        self.shell = shell
        self.stream_name = name

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.shell.tape.stream(self.stream_name, str(text))
        return len(text)


class TapePublisher(DisplayPublisher):
    shell: Any

    def publish(self, data: dict[str, Any], metadata: Any = None, **unused: Any) -> None:
        self.shell.tape.show("display_data", data)


class TapeHook(DisplayHook):
    shell: Any

    def write_output_prompt(self) -> None:
        """The prompt is part of the notebook, not of the output."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: Any = None) -> None:
        self.shell.tape.show("execute_result", format_dict, execution_count=self.shell.execution_count)


class StudentShell(InteractiveShell):
    """An IPython without a terminal, a history file or a debugger, whose output goes to a tape."""

    displayhook_class = TapeHook
    display_pub_class = TapePublisher

    def __init__(self, **options: Any) -> None:
        self.tape = Tape()
        super().__init__(**options)
        self.error: BaseException | None = None

    def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:
        self.tape.outputs.append(
            {
                "output_type": "error",
                "ename": str(getattr(etype, "__name__", etype))[:200],
                "evalue": _text_of(evalue),
                "traceback": ["\n".join(map(str, stb))[:20_000]],
            }
        )

    def run(self, source: str) -> tuple[bool, str, list[dict[str, Any]]]:
        """Run one cell; return whether it worked, the name of its error, and its outputs."""
        self.tape = Tape()
        result = self.run_cell(source, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        return error is None, type(error).__name__ if error is not None else "", self.tape.outputs


def _text_of(value: Any) -> str:
    try:
        return str(value)[:2000]
    except Exception as error:  # student classes may fail at anything
        return f"(its text could not be read: {type(error).__name__})"


def no_input(prompt: object = "") -> str:
    raise RuntimeError(
        "input() cannot be answered while a notebook is graded: put the value into the cell instead"
    )


def make_shell() -> StudentShell:
    """The shell, made once before the fork: a job then starts with it ready."""
    quiet = Config(HistoryManager={"enabled": False})  # no database, no thread
    shell = StudentShell.instance(user_ns={}, colors="nocolor", config=quiet)
    builtins.input = no_input
    sys.stdout = TapeStream(shell, "stdout")
    sys.stderr = TapeStream(shell, "stderr")
    shell.run_cell("pass", store_history=False)  # what IPython does once is then done before the fork
    return shell
