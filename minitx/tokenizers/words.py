"""One id for each word of a list: for a small language of its own, such as the reasoning about traffic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from minitx.errors import CheckpointError
from minitx.tokenizers.interface import Tokenizer, check_text

_PIECES = re.compile(r"[.,:]|[^\s.,:]+")


class WordTokenizer(Tokenizer):
    """The special tokens, then the words, each with its place as its id; the marks . , : are words, too.

    Words stand apart by one space in what `decode` gives, and a mark stands right behind its word: spaces
    between words are the only thing that a text loses. The first special token is where a text begins and the
    second where it ends.

    Raises ValueError for a word that is empty, comes twice, or that `encode` would take apart. `encode`
    raises ValueError for a word that the list lacks.
    """

    kind = "words"

    def __init__(self, words: Sequence[str], special_tokens: Sequence[str]):
        self.words, specials = list(words), list(special_tokens)
        if len(specials) < 2:
            raise ValueError(f"At least two special tokens are needed, beginning and end; got {specials}.")
        tokens = [*specials, *self.words]
        if len(set(tokens)) != len(tokens):
            twice = next(token for token in tokens if tokens.count(token) > 1)
            raise ValueError(f"The word {twice!r} comes twice.")
        for token in tokens:
            if _PIECES.findall(check_text(token)) != [token]:
                raise ValueError(
                    f"{token!r} is not one word: words have no spaces and no marks (. , :) in them."
                )
        self.special_tokens = {token: i for i, token in enumerate(specials)}
        self.beginning_of_text, self.end_of_text = 0, 1
        self._ids = {token: i for i, token in enumerate(tokens)}
        self._token_bytes = [
            token.encode() if token in (*specials, ".", ",", ":") else b" " + token.encode()
            for token in tokens
        ]

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        """See `Tokenizer.encode`. A special token is no word unless it is allowed."""
        ids = []
        for piece in _PIECES.findall(check_text(text)):
            if piece not in self._ids or (piece in self.special_tokens and not allow_special):
                raise ValueError(f"{piece!r} is none of the {len(self.words)} words of this vocabulary.")
            ids.append(self._ids[piece])
        return ids

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "words": self.words, "special_tokens": list(self.special_tokens)}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> WordTokenizer:
        lists = [stored.get("words"), stored.get("special_tokens")]
        if not all(isinstance(one, list) and all(isinstance(w, str) for w in one) for one in lists):
            raise CheckpointError('A stored word tokenizer has "words" and "special_tokens", lists of text.')
        try:
            return cls(stored["words"], stored["special_tokens"])
        except ValueError as error:
            raise CheckpointError(f"The stored words cannot be used: {error}") from None
