"""Text that comes token by token: whole characters only, and an end where a stop string is met."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Sequence


class StreamingDecoder:
    """Ids in, text out, as soon as it is certain.

    `push` keeps the bytes of a character that is not complete; `finish` gives what was kept. All pieces
    joined are `tokenizer.decode(ids)`.
    """

    def __init__(self, token_bytes: Callable[[int], bytes]):
        self._token_bytes = token_bytes
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """The characters that this id completes, often one or more, at times none."""
        return self._utf8.decode(self._token_bytes(token))

    def push_all(self, tokens: Iterable[int]) -> str:
        """The characters that these ids complete."""
        return self._utf8.decode(b"".join(map(self._token_bytes, tokens)))

    def finish(self) -> str:
        """U+FFFD for a character that was left incomplete, or nothing. The decoder can then be used again."""
        rest = self._utf8.decode(b"", final=True)
        self._utf8.reset()
        return rest


class StopStrings:
    """Lets text through up to the first stop string, which may come in several pieces.

    `push` holds back the end of the text for as long as it may be the start of a stop string. The stop that
    is complete first counts; of several that end at one place, the longest. How the text is cut into
    pieces makes no difference.
    """

    def __init__(self, stops: Sequence[str]):
        if isinstance(stops, str):
            raise TypeError(f"stops must be a sequence of strings: write [{stops!r}] for one.")
        if "" in stops:
            raise ValueError("A stop string cannot be empty: it would end every text before it starts.")
        self._stops = tuple(stops)
        self._held = ""
        self.met: str | None = None  # the stop string that ended the text

    def push(self, text: str) -> str:
        """What can be shown now; nothing once a stop string was met."""
        if self.met is not None:
            return ""
        text = self._held + text
        found = [(text.find(stop) + len(stop), -len(stop), stop) for stop in self._stops if stop in text]
        if found:
            end, _, self.met = min(found)
            self._held = ""
            return text[: end - len(self.met)]
        kept = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def finish(self) -> str:
        """What was held back and turned out to be no stop string."""
        rest, self._held = self._held, ""
        return rest


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` that is a beginning, not all, of `stop`."""
    return next(n for n in range(min(len(text), len(stop) - 1), -1, -1) if text.endswith(stop[:n]))
