"""How byte-level BPE cuts a text into words before it merges, and how it writes bytes as characters."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any, Literal

Digits = Literal["together", "apart"]

# GPT-2's pattern (Radford et al. 2019, section 2.2): a word keeps the space before it; letters, digits and
# other signs do not share a word; of several spaces the last goes to the word that follows.
WORD = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@functools.cache
def _patterns() -> tuple[Any, Any]:
    import regex  # noqa: PLC0415 (only byte-level BPE needs it)

    return regex.compile(WORD), regex.compile(r"\p{N}")


def words(text: str, digits: Digits) -> list[str]:
    """The words of a text, which together are the text.

    With digits "apart" the text is first cut at each digit, and the pattern sees one piece at a time.
    """
    word, digit = _patterns()
    if digits == "together":
        return word.findall(text)
    found: list[str] = []
    start = 0
    for match in digit.finditer(text):
        found += word.findall(text[start : match.start()])
        found.append(match.group())
        start = match.end()
    return found + word.findall(text[start:])


def _characters() -> list[str]:
    """Bytes that print stand for themselves, the others take the code points from 256 on."""
    prints = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)}
    others = iter(range(256, 512))
    return [chr(byte if byte in prints else next(others)) for byte in range(256)]


# GPT-2 writes a token's bytes as characters, so that a vocabulary is a readable file: a space is "Ġ".
BYTE_TO_CHARACTER = _characters()
CHARACTER_TO_BYTE = {character: byte for byte, character in enumerate(BYTE_TO_CHARACTER)}


def written(data: bytes) -> str:
    """Bytes as GPT-2 writes them."""
    return "".join(BYTE_TO_CHARACTER[byte] for byte in data)


def read(token: str) -> bytes:
    """The bytes that a written token stands for; a token with other characters stands for its own UTF-8."""
    try:
        return bytes(CHARACTER_TO_BYTE[character] for character in token)
    except KeyError:
        return token.encode()


def between(special_tokens: Iterable[str], text: str) -> list[str]:
    """The text cut at special tokens: ordinary text in even places, a special token in odd ones.

    Where several start at one place, the longest is taken.
    """
    longest_first = sorted(special_tokens, key=len, reverse=True)
    return re.split(f"({'|'.join(map(re.escape, longest_first))})", text)
