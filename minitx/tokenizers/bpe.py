"""Byte-level byte-pair encoding, as GPT-2 does it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from minitx.errors import CheckpointError
from minitx.tokenizers import layout, splitting
from minitx.tokenizers.interface import Tokenizer, check_text
from minitx.tokenizers.merging import Learner, merge

_REMEMBERED = 1 << 16  # words
_LONG = 128  # a word of more characters is not remembered
# What marks the beginning and the end of a text, by the names that are most used.
_BEGINNINGS, _ENDS = ("<|endoftext|>", "<s>"), ("<|endoftext|>", "</s>")


class ByteLevelBPE(Tokenizer):
    """Byte-pair encoding of UTF-8 bytes, within words (Radford et al. 2019, section 2.2).

    The text is cut into words; a word starts as single bytes, and of the pairs of neighbours that `merges`
    lists the earliest listed is merged, until none is left.

    Args:
        vocabulary: the tokens by id, their bytes written as GPT-2 writes them (a space is "Ġ").
        merges: pairs of tokens, the first to be merged first.
        special_tokens: those of the vocabulary that ordinary text must never give.
        digits: "apart": each digit is a word of its own, as for SmolLM2; "together": as for GPT-2.
        beginning_of_text, end_of_text: the special token that a text starts and ends with. Where none is
            named: "<|endoftext|>", else "<s>" and "</s>", if the vocabulary has it as a special token.

    Raises ValueError for a token that occurs twice, a merge or special token that the vocabulary lacks, and a
    merge that makes a special token. `encode` raises ValueError for a text with a byte that the vocabulary
    lacks; one that `train` made has all 256.
    """

    kind = "byte_level_bpe"

    def __init__(
        self,
        vocabulary: Sequence[str],
        merges: Iterable[tuple[str, str]],
        special_tokens: Iterable[str] = (),
        *,
        digits: splitting.Digits = "together",
        beginning_of_text: str | None = None,
        end_of_text: str | None = None,
    ):
        if digits not in ("together", "apart"):
            raise ValueError(f'digits must be "together" or "apart", got {digits!r}.')
        self.vocabulary = list(vocabulary)
        self.digits: splitting.Digits = digits
        self._ids = _by_token(self.vocabulary)
        self.special_tokens = _special_ids(special_tokens, self._ids)
        # Hugging Face's library keeps the last of a pair that is listed twice.
        self.merges = list(dict.fromkeys(reversed([tuple(pair) for pair in merges])))[::-1]
        self._merges = _ranks(self.merges, self._ids, self.special_tokens)
        # A special token stands for its text, whatever characters that has.
        self._token_bytes = [
            token.encode() if token in self.special_tokens else splitting.read(token)
            for token in self.vocabulary
        ]
        self._byte_ids = [self._ids.get(character, -1) for character in splitting.BYTE_TO_CHARACTER]
        self.beginning_of_text = self._marker("beginning_of_text", beginning_of_text, _BEGINNINGS)
        self.end_of_text = self._marker("end_of_text", end_of_text, _ENDS)
        self._remembered: dict[str, list[int]] = {}

    @classmethod
    def train(
        cls,
        text: str | Iterable[str],
        vocab_size: int,
        *,
        special_tokens: Sequence[str] = (),
        digits: splitting.Digits = "together",
        min_frequency: int = 2,
    ) -> ByteLevelBPE:
        """Learn the merges of a text, or of several texts, up to `vocab_size` tokens.

        Special tokens come first, then the 256 bytes, then a token for each merge; a pair that occurs fewer
        than `min_frequency` times is not merged, so that a short text may give fewer tokens.

        The same tokens and merges as the trainer of Hugging Face's tokenizers, except that no merge makes a
        special token. Raises ValueError for a size without room for the bytes.
        """
        counted: Counter[str] = Counter()
        for part in [text] if isinstance(text, str) else text:
            counted.update(splitting.words(check_text(part), digits))
        alphabet = sorted(splitting.BYTE_TO_CHARACTER)
        vocabulary = [*special_tokens, *alphabet]
        if vocab_size < len(vocabulary):
            raise ValueError(
                f"vocab_size must be at least {len(vocabulary)}, for 256 bytes and {len(special_tokens)} "
                f"special tokens, got {vocab_size}."
            )
        ids = _by_token(vocabulary)
        learner = Learner(
            {word.encode(): frequency for word, frequency in counted.items()},
            vocabulary,
            [ids[character] for character in splitting.BYTE_TO_CHARACTER],
            never=special_tokens,
        )
        pairs = learner.learn(vocab_size, min_frequency)
        merges = [(vocabulary[first], vocabulary[second]) for first, second in pairs]
        return cls(vocabulary, merges, special_tokens, digits=digits)

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        """See `Tokenizer.encode`."""
        check_text(text)
        if not allow_special or not self.special_tokens:
            return self._encode(text)
        ids: list[int] = []
        for i, part in enumerate(splitting.between(self.special_tokens, text)):
            ids += [self.special_tokens[part]] if i % 2 else self._encode(part)
        return ids

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for word in splitting.words(text, self.digits):
            ids += self._remembered.get(word) or self._merged(word)
        return ids

    def _merged(self, word: str) -> list[int]:
        symbols = [self._byte_ids[byte] for byte in word.encode()]
        if -1 in symbols:
            raise self._unknown(word)
        ids = merge(symbols, self._merges)
        if len(word) <= _LONG:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered[word] = ids
        return ids

    def _unknown(self, word: str) -> ValueError:
        character = next(c for c in word if any(self._byte_ids[byte] < 0 for byte in c.encode()))
        byte = next(byte for byte in character.encode() if self._byte_ids[byte] < 0)
        return ValueError(
            f"The character {character!r} (U+{ord(character):04X}), in {word[:40]!r}, has the byte "
            f"0x{byte:02X}, for which this vocabulary has no token. Leave the character out."
        )

    def _marker(self, name: str, given: str | None, usual: Iterable[str]) -> int | None:
        if given is not None and given not in self.special_tokens:
            raise ValueError(f"{name} must be one of the special tokens, got {given!r}.")
        names = usual if given is None else (given,)
        return next((self.special_tokens[name] for name in names if name in self.special_tokens), None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a tokenizer.json that Hugging Face's tokenizers can open. Raises CheckpointError on failure.

        That layout does not say which special token begins and which ends a text.
        """
        layout.write(path, layout.written(self.vocabulary, self.merges, self.special_tokens, self.digits))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        beginning_of_text: str | None = None,
        end_of_text: str | None = None,
    ) -> ByteLevelBPE:
        """Read a tokenizer.json. Raises CheckpointError for one that is damaged or not of this kind."""
        stored = layout.read(path)
        return _built(cls, path, **stored, beginning_of_text=beginning_of_text, end_of_text=end_of_text)

    def as_dict(self) -> dict[str, Any]:
        def token(number: int | None) -> str | None:
            return None if number is None else self.vocabulary[number]

        return {
            "kind": self.kind,
            "vocabulary": self.vocabulary.copy(),
            "merges": [list(pair) for pair in self.merges],
            "special_tokens": list(self.special_tokens),
            "digits": self.digits,
            "beginning_of_text": token(self.beginning_of_text),
            "end_of_text": token(self.end_of_text),
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> ByteLevelBPE:
        parts = {name: value for name, value in stored.items() if name != "kind"}
        try:
            layout.check_strings(parts["vocabulary"], parts["special_tokens"], *parts["merges"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"The stored tokenizer is damaged: {error}.") from None
        return _built(cls, "The stored tokenizer", **parts)


def _built(cls: type[ByteLevelBPE], source: Any, **parts: Any) -> ByteLevelBPE:
    try:
        return cls(**parts)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{source} cannot be used: {error}") from error


def _by_token(vocabulary: Sequence[str]) -> dict[str, int]:
    ids = {token: i for i, token in enumerate(vocabulary)}
    if len(ids) < len(vocabulary):
        i, token = next((i, token) for i, token in enumerate(vocabulary) if ids[token] != i)
        raise ValueError(f"The token {token!r} has two ids, {i} and {ids[token]}.")
    return ids


def _special_ids(tokens: Iterable[str], ids: dict[str, int]) -> dict[str, int]:
    special: dict[str, int] = {}
    for token in tokens:
        if token not in ids:
            raise ValueError(f"The special token {token!r} is not in the vocabulary.")
        if token in splitting.CHARACTER_TO_BYTE or not token:
            raise ValueError(f"The special token {token!r} must be longer than one character.")
        special[token] = ids[token]
    return special


def _ranks(
    merges: Sequence[tuple[str, ...]], ids: dict[str, int], special: dict[str, int]
) -> dict[tuple[int, int], tuple[int, int]]:
    """Each pair of ids with its rank and the id that it becomes."""
    ranks: dict[tuple[int, int], tuple[int, int]] = {}
    for rank, pair in enumerate(merges):
        if len(pair) != 2 or not all(pair):
            raise ValueError(f"Merge {rank} must be two tokens, got {pair!r}.")
        first, second = pair
        token = first + second
        missing = next((name for name in (first, second, token) if name not in ids), None)
        if missing is not None:
            raise ValueError(f"Merge {rank}, {first!r} with {second!r}, needs {missing!r} in the vocabulary.")
        if token in special:
            raise ValueError(
                f"Merge {rank} makes the special token {token!r}: ordinary text could then pass for it."
            )
        ranks[ids[first], ids[second]] = rank, ids[token]
    return ranks
