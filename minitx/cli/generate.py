"""`minitx generate`: let a model continue a text."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from minitx.cli.app import app, notices, refuse

if TYPE_CHECKING:
    from minitx.cli.transcript import Row
    from minitx.models import Decoder
    from minitx.tokenizers import Tokenizer

EXAMPLES = """Examples: minitx generate --model smollm2 "The capital of France is"

minitx generate --model runs/book-cpu/model.safetensors "Call me" --temperature 0.8 --top-p 0.9 --seed 1

minitx generate --model smollm2 "One, two," --max-new-tokens 8 --show-attention

Exit codes: 0 done; 1 the work says no; 2 wrong use; 130 stopped by ctrl-C, with what had come."""

DEFAULT_NEW = 100


class Weights(StrEnum):
    """How a token's step reads the weights."""

    exact = "exact"
    int8 = "int8"
    plain = "plain"


def option(help_text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help_text, show_default=False, **more)


@app.command(epilog=EXAMPLES)
def generate(
    model: Annotated[str, option("smollm2, driving, or a file or folder of weights.")],
    prompts: Annotated[
        list[str] | None, typer.Argument(help="Texts to continue; several make a batch.", show_default=False)
    ] = None,
    prompt_file: Annotated[
        Path | None, option("One more prompt, less the line end at its end; - reads standard input.")
    ] = None,
    max_new_tokens: Annotated[
        int | None, option(f"Tokens to add at most; {DEFAULT_NEW} where the context has room.", min=0)
    ] = None,
    temperature: Annotated[
        float | None,
        option(
            "0 takes the likeliest token, 1 draws by the probabilities of the model, less is tamer. "
            "Default: 0; 1 with --seed, --top-k or --top-p."
        ),
    ] = None,
    top_k: Annotated[int, option("Draw among the K likeliest tokens; 0: all.", min=0)] = 0,
    top_p: Annotated[float, option("Draw among the likeliest tokens that add up to P; 1: all.")] = 1.0,
    seed: Annotated[int | None, option("The same seed draws the same text.", min=0)] = None,
    stop: Annotated[list[str] | None, option("End before this text. May be repeated.")] = None,
    special: Annotated[
        bool, option("Take special tokens that stand in a prompt for what they are.", "--special")
    ] = False,
    window: Annotated[
        int | None,
        option("Cache this many last tokens only: a text may outgrow the context.", min=1),
    ] = None,
    sinks: Annotated[int, option("With --window: keep this many first tokens, too.", min=0)] = 0,
    no_cache: Annotated[bool, option("Read the whole text again for each token.", "--no-cache")] = False,
    weights: Annotated[
        Weights, option("Of the compiled step: int8 is faster and changes the text; plain compiles nothing.")
    ] = Weights.exact,
    show_attention: Annotated[bool, option("Draw attention weights.", "--show-attention")] = False,
    save_attention: Annotated[Path | None, option("Draw them into a .png, .svg or .pdf.")] = None,
    layer: Annotated[int | None, option("Layer to draw, from 0; the last by default.", min=0)] = None,
    head: Annotated[int | None, option("Head to draw, from 0; by default the mean of all.", min=0)] = None,
    as_json: Annotated[bool, option("Print texts, ids and speed as JSON.", "--json")] = False,
) -> None:
    """Continue a text with a language model; tokens are printed as they come.

    An empty prompt starts from the token that begins a text, or else from a line end.
    """
    from minitx.cli import transcript
    from minitx.cli.attention import View

    transcript.write_anything()
    if temperature is None:
        temperature = 0.0 if seed is None and top_k == 0 and top_p == 1.0 else 1.0
    chances = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    settings = {**chances, "use_cache": not no_cache, "window": window, "sinks": sinks}
    settings["compiled"] = _compiled(weights, settings)
    _check(settings, stop or [])
    texts = [*(prompts or []), *([] if prompt_file is None else [_read(prompt_file)])] or [""]
    view = View(show_attention, save_attention, layer, head)
    view.check_options(len(texts))
    loaded, tokenizer = _load(model)
    view.check_layers(loaded)
    rows = [_row(tokenizer, text, special, stop or []) for text in texts]
    longest = max(len(row.prompt_ids) for row in rows)
    new = _room(loaded, longest, window) if max_new_tokens is None else max_new_tokens
    view.check_length(loaded, longest + new)
    speed = _run(loaded, tokenizer, rows, new, settings, live=not as_json)
    interrupted = any(row.ended == "interrupted" for row in rows)
    seen = [] if interrupted or not view.wanted else [view.of(loaded, tokenizer, row) for row in rows]
    if as_json:
        texts_told = [row.as_dict() for row in rows]
        for text, one in zip(texts_told, seen if view.show else [], strict=False):
            text["attention"] = one.as_dict()
        print(json.dumps({"model": model, **chances, "texts": texts_told, **speed}))
    for one in seen:
        view.draw(one, on_screen=not as_json)
    if not as_json:
        notices.print(_speed_line(speed), soft_wrap=True)
    raise typer.Exit(130 if interrupted else 0)


def _compiled(weights: Weights, settings: dict[str, Any]) -> bool | Literal["int8"]:
    """Whether each token is one compiled call. Exact weights are so where that can be."""
    from minitx import kernels

    can = settings["use_cache"] and settings["window"] is None
    if weights is Weights.int8:
        if not can:
            raise typer.BadParameter("--weights int8 needs the cache, and no --window.")
        return "int8"
    return weights is Weights.exact and can and kernels.backend() == "numba"


def _read(file: Path) -> str:
    """The text of a prompt file. Editors end the last line; the prompt need not end there."""
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        refuse(f"{file} cannot be read: {error.strerror or error}")
    except UnicodeDecodeError as error:
        refuse(
            f"{file} is not UTF-8 text: byte 0x{data[error.start]:02X} at place {error.start}. Convert it."
        )
    return text.removesuffix("\n").removesuffix("\r")


def _check(settings: dict[str, Any], stops: Sequence[str]) -> None:
    """End with exit code 2 for options that no model could take."""
    from minitx.sampling import check_settings

    try:
        check_settings(settings["temperature"], settings["top_k"], settings["top_p"])
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if "" in stops:
        raise typer.BadParameter("--stop cannot be empty: it would end every text before it starts.")
    if settings["sinks"] and settings["window"] is None:
        raise typer.BadParameter("--sinks are what a --window keeps: give both.")
    if settings["window"] is not None and not settings["use_cache"]:
        raise typer.BadParameter("--window is a way to keep a cache, and --no-cache keeps none.")


def _load(name: str) -> tuple[Decoder, Tokenizer]:
    from minitx import checkpoints
    from minitx.errors import CheckpointError
    from minitx.models import Decoder

    try:
        model, tokenizer = checkpoints.load(name)
    except CheckpointError as error:
        refuse(error)
    if not isinstance(model, Decoder):
        refuse(
            f"{name} holds a {type(model).__name__}, which writes no text. To compare texts: minitx embed."
        )
    if tokenizer is None:
        refuse(f"{name} has no tokenizer beside its weights, so a text cannot be turned into tokens.")
    return model, tokenizer


def _row(tokenizer: Tokenizer, text: str, special: bool, stops: Sequence[str]) -> Row:
    from minitx.cli.transcript import Row

    try:
        ids = tokenizer.encode(text, allow_special=special)
        if not ids and tokenizer.beginning_of_text is not None:
            ids = [tokenizer.beginning_of_text]
        elif not ids:
            ids = tokenizer.encode("\n")
    except ValueError as error:
        refuse(
            error
            if text
            else "This model has no token that begins a text, not even a line end: give a prompt."
        )
    return Row(tokenizer, text, ids, stops)


def _room(model: Decoder, longest: int, window: int | None) -> int:
    """How many tokens to add where nothing is said; one where none fits, which is then refused."""
    return DEFAULT_NEW if window is not None else max(1, min(DEFAULT_NEW, model.config.context - longest))


def _run(
    model: Decoder,
    tokenizer: Tokenizer,
    rows: Sequence[Row],
    new: int,
    settings: dict[str, Any],
    *,
    live: bool,
) -> dict[str, Any]:
    """Generate until every row has ended, or ctrl-C; -> how long it took."""
    from minitx.cli.transcript import Live
    from minitx.generation import stream

    begun = time.perf_counter()
    try:
        steps = stream(
            model,
            [row.prompt_ids for row in rows],
            new,
            stop=lambda row, token: rows[row].push(token),
            vocab_size=tokenizer.vocab_size,
            **settings,
        )
    except ValueError as error:
        refuse(error)
    screen = Live(rows) if live else None
    first: float | None = None
    with Interrupt() as interrupt:
        try:
            for _ in steps:
                first = time.perf_counter() if first is None else first
                if screen is not None:
                    screen.update()
                if interrupt.came:
                    break
        except ValueError as error:  # logits that are NaN
            refuse(f"\n{error}" if live else error)
        end = time.perf_counter()
        for row in rows:
            row.finish("interrupted" if interrupt.came else "length")
        if screen is not None:
            screen.update()
    return _speed(rows, begun, end if first is None else first, end)


class Interrupt:
    """Turns the first ctrl-C into a wish that is looked at between steps: nothing is printed twice or lost.

    A second one ends at once.
    """

    came = False

    def __enter__(self) -> Interrupt:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _note(self, *_: object) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True


def _speed(rows: Sequence[Row], begun: float, first: float, end: float) -> dict[str, Any]:
    """Time until the first tokens, and how fast the others came, all rows together."""
    new = sum(len(row.ids) for row in rows)
    others = new - sum(1 for row in rows if row.ids)
    return {
        "new_tokens": new,
        "seconds": end - begun,
        "seconds_to_first": first - begun,
        "tokens_per_second": others / (end - first) if others else None,
    }


def _speed_line(speed: dict[str, Any]) -> str:
    line = f"{speed['new_tokens']} tokens in {speed['seconds']:.2f} s"
    if speed["tokens_per_second"] is None:
        return line
    then = f"then {speed['tokens_per_second']:.1f} tokens/s"
    return f"{line}: the first after {speed['seconds_to_first']:.2f} s, {then}"
