"""tokenizer.json, the file of Hugging Face's tokenizers, for byte-level byte-pair encoding."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from minitx.errors import CheckpointError
from minitx.tokenizers.splitting import Digits

_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_DIGITS = {"type": "Digits", "individual_digits": True}
# Settings of the model that change what text becomes, and the values under which they change nothing.
_NEUTRAL = {
    "dropout": (None, 0, 0.0),
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "byte_fallback": (None, False),
    "ignore_merges": (None, False),
}


def written(
    vocabulary: Sequence[str],
    merges: Iterable[Sequence[str]],
    special_tokens: Mapping[str, int],
    digits: Digits,
) -> dict[str, Any]:
    """The content of a tokenizer.json."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    by_id = sorted(special_tokens.items(), key=lambda item: item[1])
    apart = {"type": "Sequence", "pretokenizers": [_DIGITS, _BYTES]}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": token, **plain} for token, i in by_id],
        "normalizer": None,
        "pre_tokenizer": apart if digits == "apart" else _BYTES,
        "post_processor": None,
        "decoder": {**_BYTES, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(vocabulary)},
            "merges": [" ".join(pair) for pair in merges],
        },
    }


def write(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write JSON to `path`, whole or not at all."""
    target = Path(path)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=target.parent, prefix=f".{target.name}.", delete=False
        ) as file:
            temporary = Path(file.name)
            json.dump(content, file, ensure_ascii=False, indent=1)
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(target)
    except OSError as error:
        raise CheckpointError(f"{target} could not be written: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arguments that `ByteLevelBPE` takes, from a tokenizer.json.

    Raises CheckpointError for a file that cannot be read, or that asks for what is not done here.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        return _arguments(content)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    except RecursionError:
        raise CheckpointError(f"{path} is no tokenizer.json: its brackets are nested too deep.") from None
    except json.JSONDecodeError as error:
        raise CheckpointError(f"{path} is no whole JSON file: {error}. It may be cut short.") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise CheckpointError(f"{path} is no tokenizer.json that can be used here: {why}") from error


def _arguments(content: dict[str, Any]) -> dict[str, Any]:
    model = content["model"]
    if model.get("type", "BPE") != "BPE":
        raise ValueError(f"its model is {model['type']!r}, not BPE.")
    for name, neutral in _NEUTRAL.items():
        if model.get(name) not in neutral:
            raise ValueError(f"its model has {name} = {model[name]!r}, which is not supported.")
    if content.get("normalizer") is not None:
        raise ValueError("it changes the text before it is cut (a normalizer), which is not supported.")
    added = content.get("added_tokens") or []
    for token in added:
        changed = [name for name in ("single_word", "lstrip", "rstrip") if token.get(name)]
        if changed or not token.get("special"):
            what = changed[0] if changed else "not special"
            raise ValueError(f"its added token {token['content']!r} is {what}, which is not supported.")
    ids = dict(model["vocab"])
    ids.update({token["content"]: token["id"] for token in added})
    merges = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
    special = [token["content"] for token in added]
    vocabulary = _in_order(ids)
    check_strings(vocabulary, special, *merges)
    digits = _digits(content.get("pre_tokenizer"))
    return {"vocabulary": vocabulary, "merges": merges, "special_tokens": special, "digits": digits}


def _in_order(ids: Mapping[str, Any]) -> list[str]:
    tokens = {i: token for token, i in ids.items() if type(i) is int}
    if len(tokens) < len(ids) or any(i not in tokens for i in range(len(ids))):
        raise ValueError(f"the ids of its {len(ids)} tokens are not 0 ... {len(ids) - 1}, each once.")
    return [tokens[i] for i in range(len(ids))]


def _digits(pre_tokenizer: Any) -> Digits:
    steps = pre_tokenizer or {}
    steps = steps["pretokenizers"] if steps.get("type") == "Sequence" else [steps]
    *first, last = steps
    whole = (
        last.get("type") == "ByteLevel"
        and last.get("use_regex", True)
        and not last.get("add_prefix_space", True)
    )
    if whole and not first:
        return "together"
    if whole and first == [_DIGITS]:
        return "apart"
    raise ValueError(
        "its pre_tokenizer is neither GPT-2's ByteLevel nor Digits, one by one, with ByteLevel after."
    )


def check_strings(*lists: Any) -> None:
    """Raise ValueError unless each is a list of strings."""
    for strings in lists:
        if not isinstance(strings, list) or not all(isinstance(string, str) for string in strings):
            raise ValueError(f"a list of strings was expected, got {str(strings)[:60]!r}")
