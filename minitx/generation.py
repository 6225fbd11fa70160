"""Text from a language model, token by token: what `minitx.generate` and `minitx.stream` do."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from minitx.cache import KVCache
from minitx.errors import DtypeError, shape_error
from minitx.graph import no_grad
from minitx.models.decoder import Decoder
from minitx.nn import Module
from minitx.sampling import Seed, check_settings, row_generators, sample_row
from minitx.tensor import Tensor

if TYPE_CHECKING:
    from minitx.decoding import CompiledStep

# Whether a row ends with the id that was just chosen: (row, id) -> bool.
Ends = Callable[[int, int], bool]
Stop = Ends | int | Iterable[int | Sequence[int]] | None


def generate(
    model: Any,
    ids: Any,
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: Seed = None,
    stop: Stop = None,
    use_cache: bool = True,
    window: int | None = None,
    sinks: int = 0,
    vocab_size: int | None = None,
    compiled: bool | Literal["int8"] = False,
) -> Any:
    """The ids of a prompt, or of each prompt of a batch, and up to `max_new_tokens` that follow.

    Args:
        model: a `Decoder` such as GPT or Llama, or what is called like one (see `stream`).
        ids: one prompt, a list of ids or an array (n,); or a batch, a list of prompts of any lengths or an
            array (B, n). Each row of a batch gets what it gets alone, up to rounding.
        max_new_tokens: how many ids are added at most.
        temperature, top_k, top_p, seed, stop, use_cache, window, sinks, vocab_size, compiled: see `stream`.

    Returns what was passed, longer: a list for a list, an array for an array, a list of lists for a batch of
    lists. An array (B, n) with `stop` gives a list of lists, since rows may end at different lengths.

    Raises what `stream` raises, before anything is computed.
    """
    request = _request(
        model,
        ids,
        max_new_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        stop=stop,
        use_cache=use_cache,
        window=window,
        sinks=sinks,
        vocab_size=vocab_size,
        compiled=compiled,
    )
    texts = [list(prompt) for prompt in request.prompts]
    for step in _steps(model, request):
        for text, token in zip(texts, step, strict=True):
            if token is not None:
                text.append(token)
    if request.alone:
        return texts[0] if isinstance(ids, list | tuple) else np.array(texts[0], np.int64)
    if isinstance(ids, list | tuple) or stop is not None:
        return texts
    return np.array(texts, np.int64)


def stream(
    model: Any,
    ids: Any,
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: Seed = None,
    stop: Stop = None,
    use_cache: bool = True,
    window: int | None = None,
    sinks: int = 0,
    vocab_size: int | None = None,
    compiled: bool | Literal["int8"] = False,
) -> Iterator[Any]:
    """The ids that follow a prompt, one at a time; for a batch a list with one id for each row at a time.

    In a batch a row that has ended has None in the place of an id. All arguments are checked at the call, and
    the first id is computed when it is asked for.

    Args:
        model: a `Decoder`; or anything with `config.vocab_size` and `config.context` that gives logits
            (B, n, vocab_size) for `model(ids, cache=cache, lengths=lengths)` and has `new_cache(batch,
            capacity)`. Dropout is off during a step.
        ids, max_new_tokens: see `generate`.
        temperature, top_k, top_p: see `minitx.sampling.probabilities`.
        seed: of what is drawn. With an integer, row i draws as a text made alone with seed + i; a sequence
            has one for each row; None gives another text each time.
        stop: where a row ends: an id, or a list of ids and of sequences of ids; or a function (row, id) ->
            bool, called with each new id. The ids that end a row belong to it. Only new ids count.
        use_cache: keep keys and values, or read the whole text again for each token, with the
            same result up to rounding.
        window, sinks: keep only the first `sinks` and the last `window` tokens in the cache, so that a text
            may be longer than the context; for rotary positions and ALiBi.
        vocab_size: choose among the ids below this one only, for a model whose vocabulary is padded.
        compiled: after the prompt, a step is one compiled call (see `minitx.decoding`), which copies the
            weights first; "int8" copies them in 8 bits, and the text may then differ. For a GPT or Llama with
            a cache that has no window.

    Raises ValueError for a prompt that is empty or longer than the context, or that leaves no room there for
    the new tokens, and for settings that make no sense; IndexError for an id outside the vocabulary;
    TypeError for what is no integer.
    """
    request = _request(
        model,
        ids,
        max_new_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        stop=stop,
        use_cache=use_cache,
        window=window,
        sinks=sinks,
        vocab_size=vocab_size,
        compiled=compiled,
    )
    steps = _steps(model, request)
    return (step[0] for step in steps) if request.alone else steps


@dataclass
class _Request:
    """What is to be made, checked."""

    prompts: list[list[int]]
    alone: bool  # one prompt, which is no batch
    max_new_tokens: int
    temperature: float
    top_k: int
    top_p: float
    generators: list[np.random.Generator]
    ends: Ends
    cache: KVCache | None
    vocab_size: int
    step: CompiledStep | None


def _request(
    model: Any,
    ids: Any,
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: Seed = None,
    stop: Stop = None,
    use_cache: bool = True,
    window: int | None = None,
    sinks: int = 0,
    vocab_size: int | None = None,
    compiled: bool | Literal["int8"] = False,
) -> _Request:
    check_settings(temperature, top_k, top_p)
    prompts, alone = _prompts(ids, model.config.vocab_size)
    new = _whole("max_new_tokens", max_new_tokens, 0)
    longest = max(map(len, prompts))
    _check_window(window, sinks, use_cache, model.config.context)
    if window is None:
        _check_length(prompts, new, model.config.context)
    known = model.config.vocab_size
    allowed = known if vocab_size is None else _whole("vocab_size", vocab_size, 1)
    if allowed > known:
        raise ValueError(f"vocab_size must be at most that of the model, {known}, got {allowed}.")
    cache = None
    if window is not None:
        cache = model.new_cache(len(prompts), window=window, sinks=sinks)
    elif use_cache:
        cache = model.new_cache(len(prompts), longest + new)
    return _Request(
        prompts,
        alone,
        new,
        temperature,
        top_k,
        top_p,
        row_generators(seed, len(prompts)),
        _ends(stop),
        cache,
        allowed,
        _compiled_step(model, compiled, cache) if compiled else None,
    )


def _steps(model: Any, request: _Request) -> Iterator[list[int | None]]:
    """Ids for all rows, step after step, until every row has ended."""
    modules = list(model.modules()) if isinstance(model, Module) else []
    cache, active = request.cache, list(range(len(request.prompts)))
    unread = [list(prompt) for prompt in request.prompts]  # of the active rows: what the model reads next
    fresh = True  # the prompts have not been read yet
    for _ in range(request.max_new_tokens):
        with _inference(modules):
            if cache is not None and request.step is not None and not fresh:
                logits = request.step([row[0] for row in unread], cache)
            else:
                logits = _next_logits(model, unread, cache)
        logits, fresh = logits[:, : request.vocab_size], False
        step: list[int | None] = [None] * len(request.prompts)
        going = []  # places in `active` of the rows that go on
        for place, row in enumerate(active):
            token = sample_row(
                logits[place],
                request.temperature,
                request.top_k,
                request.top_p,
                request.generators[row],
                f"row {row}",
            )
            step[row] = token
            unread[place] = [token] if cache is not None else [*unread[place], token]
            if not request.ends(row, token):
                going.append(place)
        yield step
        if not going:
            return
        if len(going) < len(active):  # a row that has ended costs nothing from here on
            cache = None if cache is None else cache.fork(going)
            active, unread = [active[place] for place in going], [unread[place] for place in going]


def _compiled_step(model: Any, compiled: bool | str, cache: KVCache | None) -> CompiledStep:
    if cache is None or cache.window is not None:
        raise ValueError("A compiled step needs a cache without a window: use_cache=True, window=None.")
    from minitx.decoding import compile_step  # noqa: PLC0415 - brings the kernels, which few callers need

    return compile_step(model, weights="int8" if compiled == "int8" else None)


def _next_logits(model: Any, unread: list[list[int]], cache: KVCache | None) -> np.ndarray:
    """The logits (B, vocab) behind the last id of each row; the rows may differ in length."""
    counts = np.array([len(row) for row in unread])
    ids = np.zeros((len(unread), counts.max()), np.int64)  # what pads a row on the right is not seen
    for row, line in zip(unread, ids, strict=True):
        line[: len(row)] = row
    lengths = counts if counts.min() < counts.max() else None
    last = np.arange(len(unread)), counts - 1
    if isinstance(model, Decoder) and type(model).forward is Decoder.forward:
        # The head is the largest product of a small model: one position of a long prompt is enough for it.
        hidden = model.forward_embeddings(model.tokens(ids), cache=cache, lengths=lengths)
        return model.logits(Tensor(hidden._array[last]))._array
    logits = model(ids, cache=cache, lengths=lengths)
    return (logits._array if isinstance(logits, Tensor) else np.asarray(logits))[last]


@contextmanager
def _inference(modules: list[Module]) -> Iterator[None]:
    """No gradients and no dropout, for one step: between two steps of a stream the caller may train."""
    training = [module for module in modules if module.training]
    for module in training:
        module.training = False
    try:
        with no_grad():
            yield
    finally:
        for module in training:
            module.training = True


def _prompts(ids: Any, vocab_size: int) -> tuple[list[list[int]], bool]:
    """The prompts as lists, and whether it is one that is no batch."""
    if isinstance(ids, Tensor):
        ids = ids._array
    if isinstance(ids, str) or not isinstance(ids, list | tuple | np.ndarray):
        raise TypeError(
            f"ids must be a list or an array of ids, got {type(ids).__name__}; encode a text first."
        )
    if isinstance(ids, np.ndarray) and ids.ndim not in (1, 2):
        raise shape_error("ids", "(n,) or (B, n)", ids.shape)
    if len(ids) == 0:
        raise ValueError("ids is empty: a text starts from at least one token.")
    alone = not isinstance(ids[0], list | tuple | np.ndarray)
    rows = [ids] if alone else list(ids)
    return [_prompt(row, i, vocab_size) for i, row in enumerate(rows)], alone


def _prompt(row: Any, i: int, vocab_size: int) -> list[int]:
    try:
        array = np.asarray(row)
    except ValueError:  # lists of different lengths inside
        raise TypeError(f"Prompt {i} must be one sequence of ids, got {row!r}.") from None
    if array.size == 0:
        raise ValueError(f"Prompt {i} is empty: a text starts from at least one token.")
    if array.ndim != 1:
        raise shape_error(f"prompt {i}", "(n,)", array.shape)
    if array.dtype.kind not in "iu":
        raise DtypeError(f"Prompt {i} must hold integers, got {array.dtype}.")
    wrong = np.flatnonzero((array < 0) | (array >= vocab_size))
    if wrong.size:
        raise IndexError(
            f"ids must lie in 0 ... {vocab_size - 1}, the vocabulary of the model; prompt {i} has "
            f"{array[wrong[0]]} at place {wrong[0]}. Was the text encoded with another tokenizer?"
        )
    return array.tolist()


def _check_length(prompts: list[list[int]], new: int, context: int) -> None:
    i, longest = max(enumerate(map(len, prompts)), key=lambda item: item[1])
    way_out = "or pass window= where the model's positions allow it."
    if longest > context:
        raise ValueError(
            f"Prompt {i} has {longest} tokens, more than the context of the model, {context}. "
            f"Shorten it, {way_out}"
        )
    if longest + new > context:
        raise ValueError(
            f"Prompt {i} has {longest} tokens, and with max_new_tokens = {new} that is {longest + new}, more "
            f"than the context of the model, {context}. Ask for {context - longest} at most, shorten the "
            f"prompt, {way_out}"
        )


def _check_window(window: int | None, sinks: int, use_cache: bool, context: int) -> None:
    _whole("sinks", sinks, 0)
    if window is None:
        if sinks:
            raise ValueError(f"sinks ({sinks}) are what a sliding window keeps: give a window as well.")
        return
    if not use_cache:
        raise ValueError("A window is a way to keep a cache: it needs use_cache=True.")
    if sinks + _whole("window", window, 1) > context:
        raise ValueError(
            f"sinks + window must be at most the context of the model, {context}, got {sinks} + {window}."
        )


def _whole(name: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}.") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}.")
    return number


def _ends(stop: Stop) -> Ends:
    """`stop` as a function of row and id."""
    if stop is None:
        return lambda row, token: False
    if callable(stop):
        return stop
    if isinstance(stop, str):
        raise TypeError(
            f"stop must be ids, got the text {stop!r}. A text may be cut into tokens in many ways: decode "
            "what comes and look there, as minitx.tokenizers.StopStrings does."
        )
    sequences = {_stop_sequence(one) for one in (stop if isinstance(stop, Iterable) else [stop])}
    if not sequences:
        return lambda row, token: False
    longest = max(map(len, sequences))
    tails: dict[int, tuple[int, ...]] = {}

    def ends(row: int, token: int) -> bool:
        tail = tails[row] = (*tails.get(row, ()), token)[-longest:]
        return any(tail[-len(sequence) :] == sequence for sequence in sequences)

    return ends


def _stop_sequence(one: Any) -> tuple[int, ...]:
    try:
        many = isinstance(one, list | tuple | np.ndarray)
        sequence = tuple(map(operator.index, one if many else (one,)))
    except TypeError:
        raise TypeError(f"stop must be ids or sequences of ids, got {one!r} among them.") from None
    if not sequence:
        raise ValueError("A stop sequence cannot be empty: it would end every row before it starts.")
    return sequence
