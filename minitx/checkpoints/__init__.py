"""Checkpoints: models and tokenizers in files, and real weights from elsewhere.

    checkpoints.save("model.safetensors", model, tokenizer=tokenizer)
    model, tokenizer = checkpoints.load("model.safetensors")
    model, tokenizer = checkpoints.load("smollm2")

All are safetensors, or GGUF for reading; pickles are refused.
"""

from minitx.checkpoints.files import read_safetensors, write_safetensors
from minitx.checkpoints.names import KNOWN, load, load_as
from minitx.checkpoints.own import describe, save
from minitx.errors import CheckpointError

__all__ = [
    "KNOWN",
    "CheckpointError",
    "describe",
    "load",
    "load_as",
    "read_safetensors",
    "save",
    "write_safetensors",
]
