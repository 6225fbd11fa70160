"""What a cell showed, as a sandbox tells it: built anew here, so that only the expected shapes go on.

The other end is not to be believed about anything: student code can write frames of its own.
"""

from __future__ import annotations

from typing import Any

from autograder.sandbox.wire import ProtocolError, clean

KINDS = ("stream", "error", "display_data", "execute_result")
MAX_OUTPUTS = 10_000
MAX_CHARACTERS = 10 << 20  # a little above what a shell keeps of one cell


def checked(outputs: Any) -> list[dict[str, Any]]:
    """Outputs in nbformat 4's form. Raises `ProtocolError` for anything else, or for too much."""
    if type(outputs) is not list or len(outputs) > MAX_OUTPUTS:
        raise ProtocolError("a cell's outputs are no list, or too many")
    built = [_output(output) for output in outputs]
    if sum(map(_characters, built)) > MAX_CHARACTERS:
        raise ProtocolError(f"a cell's outputs have more than {MAX_CHARACTERS:,} characters")
    return built


def _output(output: Any) -> dict[str, Any]:
    kind = output.get("output_type") if type(output) is dict else None
    if kind == "stream":
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return {"output_type": kind, "name": name, "text": _text(output.get("text"))}
    if kind == "error":
        lines = output.get("traceback")
        if type(lines) is not list or len(lines) > MAX_OUTPUTS:
            raise ProtocolError("an error's traceback is no list of lines")
        texts = {key: _text(output.get(key)) for key in ("ename", "evalue")}
        return {"output_type": kind, **texts, "traceback": [_text(line) for line in lines]}
    if kind in ("display_data", "execute_result"):
        data = output.get("data")
        if type(data) is not dict:
            raise ProtocolError("what a cell showed has no data")
        shown = {"output_type": kind, "data": {clean(k): _text(v) for k, v in data.items()}, "metadata": {}}
        count = output.get("execution_count")
        known = type(count) is int and 0 <= count < 1 << 31
        return {**shown, "execution_count": count if known else None} if kind == "execute_result" else shown
    raise ProtocolError("an output of an unknown kind")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ProtocolError("a text of an output is none")
    return clean(value)


def _characters(output: dict[str, Any]) -> int:
    texts = [output.get("text", ""), output.get("ename", ""), output.get("evalue", "")]
    return sum(map(len, [*texts, *output.get("traceback", []), *output.get("data", {}).values()]))
