"""safetensors files: written whole or not at all, and read with errors that name what is wrong.

A file of weights that is a pickle (.pt, .bin, .pkl) is never opened: unpickling runs code that the file
brings.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minitx.errors import CheckpointError

Arrays = dict[str, np.ndarray]

PICKLE_ENDINGS = {".pt", ".pth", ".bin", ".pkl", ".pickle", ".ckpt"}
# A pickle of protocol 2 and later, and the zip archive in which PyTorch puts one.
PICKLE_STARTS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")
KINDS = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"}


def write_safetensors(
    path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> None:
    """Write arrays and text metadata to `path`, atomically.

    The file is completed under another name in the same folder, handed to the disk, and then renamed: a
    reader, a crash or a full disk meets the old file or the new one, never half of one. Arrays come back bit
    for bit.

    Raises CheckpointError where the folder is missing, cannot be written to, or the disk is full; what was at
    `path` before is still there.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    target = Path(path)
    # The library writes the memory of an array as it lies: it must be contiguous. (np.ascontiguousarray would
    # give a scalar an axis.)
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    temporary = ""
    try:
        temporary = _reserve(target)
        save_file(plain, temporary, metadata=dict(metadata or {}))
        _settle(temporary, target)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{target} could not be written: {_reason(error)}") from error
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def _reserve(target: Path) -> str:
    """The name of a new file beside `target`."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(descriptor)
    return name


def _settle(temporary: str, target: Path) -> None:
    """Put the finished file in its place; it is on the disk before its name is."""
    with open(temporary, "rb+") as file:
        os.chmod(temporary, _mode(target))  # after it was opened: the mode may forbid writing
        os.fsync(file.fileno())
    os.replace(temporary, target)
    if os.name == "posix":  # so that the new name, too, outlives a power cut
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _mode(target: Path) -> int:
    """The permissions that `target` has, or those that an ordinary new file would get."""
    try:
        return target.stat().st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def read_safetensors(path: str | os.PathLike[str]) -> tuple[Arrays, dict[str, str]]:
    """The arrays of a safetensors file by name, and its metadata.

    Arrays keep their dtype; bfloat16, which NumPy does not have, becomes float32, exactly.
    Raises CheckpointError for a file that is missing, empty, truncated, no safetensors file or a pickle.
    """
    from safetensors import SafetensorError, deserialize, safe_open

    file_path = readable(path)
    try:
        with safe_open(file_path, framework="np") as file:
            metadata = dict(file.metadata() or {})
            names = list(file.keys())
            kinds = {name: file.get_slice(name).get_dtype() for name in names}
            _refuse_kinds(file_path, kinds)
            arrays = {name: file.get_tensor(name) for name in names if kinds[name] != "BF16"}
        if "BF16" in kinds.values():
            for name, view in deserialize(file_path.read_bytes()):
                if view["dtype"] == "BF16":
                    arrays[name] = _from_bfloat16(view)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{file_path} ({file_path.stat().st_size:,} bytes) is no whole safetensors file: "
            f"{_reason(error)}. It may be cut short by an interrupted download or copy: fetch it again."
        ) from error
    return arrays, metadata


def readable(path: str | os.PathLike[str]) -> Path:
    """`path`, after a look at the file: there, not empty, and no pickle."""
    file_path = Path(path)
    try:
        with open(file_path, "rb") as file:
            start = file.read(9)
    except OSError as error:
        raise CheckpointError(f"{file_path} cannot be read: {_reason(error)}") from error
    # A safetensors file starts with the length of its header, which may look like a pickle; then comes "{".
    pickled = start.startswith(PICKLE_STARTS) and start[8:] != b"{"
    if pickled or file_path.suffix.lower() in PICKLE_ENDINGS:
        raise CheckpointError(
            f"{file_path} looks like a pickle, as PyTorch writes it. Loading one runs whatever code it "
            "brings, so minitx never does. Ask for the weights as .safetensors, or convert them where they "
            "come from: safetensors.torch.save_file(model.state_dict(), 'model.safetensors')."
        )
    if not start:
        raise CheckpointError(f"{file_path} is empty: writing or fetching it was interrupted.")
    return file_path


def _refuse_kinds(path: Path, kinds: dict[str, str]) -> None:
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise CheckpointError(
                f"{path}: tensor {name} has the number format {kind}, which is not read here. "
                "Convert the weights to F32, F16 or BF16."
            )


def _from_bfloat16(view: Mapping[str, Any]) -> np.ndarray:
    """bfloat16 is the upper half of a float32."""
    upper = np.frombuffer(view["data"], np.uint16).astype(np.uint32)
    return (upper << np.uint32(16)).view(np.float32).reshape(view["shape"])


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
