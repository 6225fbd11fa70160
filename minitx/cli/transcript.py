"""Texts that grow token by token, as `minitx generate` shows them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Literal

from minitx.tokenizers import StopStrings, Tokenizer

Ending = Literal["length", "stop", "end_of_text", "interrupted"]


class Row:
    """One prompt and what follows it. `push` takes an id and says whether the row ends with it."""

    def __init__(self, tokenizer: Tokenizer, prompt: str, ids: Sequence[int], stops: Sequence[str]):
        self.prompt, self.prompt_ids = prompt, list(ids)
        self.ids: list[int] = []
        self.completion = ""
        self.ended: Ending | None = None
        self._end_of_text = tokenizer.end_of_text
        # Special tokens are for the model; what marks up a conversation is no text.
        self._decoder = tokenizer.streaming_decoder(skip_special=True)
        self._until = StopStrings(stops)

    def push(self, token: int) -> bool:
        self.ids.append(token)
        if token == self._end_of_text:
            self.finish("end_of_text")
        else:
            self.completion += self._until.push(self._decoder.push(token))
            if self._until.met is not None:
                self.ended = "stop"
        return self.ended is not None

    def finish(self, ending: Ending) -> None:
        """No more will come. A character that is not complete is left out."""
        if self.ended is None:
            self.completion += self._until.finish()
            self.ended = ending

    def as_dict(self) -> dict[str, Any]:
        return {
            "prompt": self.prompt,
            "completion": self.completion,
            "prompt_tokens": len(self.prompt_ids),
            "new_tokens": len(self.ids),
            "ids": self.ids,
            "ended": self.ended,
        }


class Live:
    """Writes the first row as it grows, and each other one once those before it have ended."""

    def __init__(self, rows: Sequence[Row]):
        self._rows, self._current, self._shown = rows, -1, 0
        self._start_next()

    def update(self) -> None:
        """Write what has come."""
        while self._current < len(self._rows):
            row = self._rows[self._current]
            write(row.completion[self._shown :])
            self._shown = len(row.completion)
            if row.ended is None:
                return
            write("\n")
            self._start_next()

    def _start_next(self) -> None:
        self._current += 1
        self._shown = 0
        if self._current < len(self._rows):
            if len(self._rows) > 1:
                write(f"--- {self._current + 1} of {len(self._rows)} ---\n")
            write(self._rows[self._current].prompt)


# All that a terminal takes for a command, except new line and tab.
_COMMANDS = {i: f"\\x{i:02x}" for i in (*range(32), *range(127, 160)) if chr(i) not in "\n\t"}


def write(text: str) -> None:
    """Text on standard output, at once; a terminal meets no control characters in it."""
    if text:
        sys.stdout.write(text.translate(_COMMANDS) if sys.stdout.isatty() else text)
        sys.stdout.flush()


def write_anything() -> None:
    """Let standard output write "?" for what its encoding cannot, in place of an error."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
