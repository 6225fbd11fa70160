"""What every tokenizer can do."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

from minitx.tokenizers.streaming import StreamingDecoder


class Tokenizer(ABC):
    """Text to ids 0 ... vocab_size - 1 and back.

    A token is a piece of UTF-8, which need not end where a character ends: `decode` joins the bytes of all
    its ids first. `special_tokens` maps the text of each special token to its id; they mark the beginning or
    the end of a text and the like. In `encode` they are ordinary text unless `allow_special` is set, so that
    a user who types "<|endoftext|>" cannot end a text with it.
    """

    kind: ClassVar[str]  # what `as_dict` calls this kind of tokenizer
    special_tokens: dict[str, int]
    beginning_of_text: int | None = None  # the id that a text starts with, where there is one
    end_of_text: int | None = None  # the id that ends a text, where there is one
    _token_bytes: list[bytes]  # by id

    @abstractmethod
    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        """The ids of a text; none for an empty one. No special token is added.

        Raises ValueError for a text that the vocabulary cannot write, and TypeError for what is no text.
        """

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """All that `from_dict` needs, as plain values that JSON can hold."""

    @classmethod
    @abstractmethod
    def from_dict(cls, stored: dict[str, Any]) -> Tokenizer:
        """The tokenizer whose `as_dict()` this is. Raises CheckpointError for anything else."""

    @property
    def vocab_size(self) -> int:
        """How many ids there are, the special ones included."""
        return len(self._token_bytes)

    def decode(self, ids: Iterable[int], *, skip_special: bool = False) -> str:
        """The text of ids. Bytes that are no UTF-8 become U+FFFD; `skip_special` leaves special tokens out.

        Raises ValueError for an id outside the vocabulary, TypeError for one that is no integer.
        """
        decoder = self.streaming_decoder(skip_special=skip_special)
        return decoder.push_all(ids) + decoder.finish()

    def streaming_decoder(self, *, skip_special: bool = False) -> StreamingDecoder:
        """A decoder that takes one id at a time and never gives out half a character."""
        special = frozenset(self.special_tokens.values()) if skip_special else frozenset()
        return StreamingDecoder(
            lambda token: b"" if self.check_id(token) in special else self.token_bytes(token)
        )

    def token_bytes(self, token: int) -> bytes:
        """The UTF-8, or piece of it, that an id stands for."""
        return self._token_bytes[self.check_id(token)]

    def check_id(self, token: int) -> int:
        """The id as an int. Raises ValueError outside the vocabulary, TypeError for what is no integer."""
        try:
            number = operator.index(token)
        except TypeError:
            raise TypeError(f"ids must be integers, got {token!r}. Pass one sequence of ids.") from None
        if not 0 <= number < len(self._token_bytes):
            raise ValueError(
                f"Id {number} is outside the vocabulary, whose ids are 0 ... {len(self._token_bytes) - 1}. "
                "Was it made with another tokenizer, or by a model whose vocabulary is larger?"
            )
        return number


def check_text(text: Any) -> str:
    """`text`, where it is a str that can be written as UTF-8."""
    if not isinstance(text, str):
        raise TypeError(f"A tokenizer encodes a str, got {type(text).__name__}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"The character {text[error.start]!r} at place {error.start} is half of a surrogate pair, which "
            "no UTF-8 can hold. It comes from bytes that were not read as what they are; "
            'text.encode("utf-8", "replace").decode() puts "?" in its place.'
        ) from None
    return text
