"""Training: a recipe, the loop, and a state from which the loop goes on bit for bit.

    from minitx import models, training
    from minitx.tokenizers import CharacterTokenizer

    tokenizer = CharacterTokenizer(text)
    data = training.TextData(tokenizer.encode(text), context=64)
    model = models.GPT(models.GPTConfig(tokenizer.vocab_size, context=64, n_layers=4, n_heads=4, d_model=128))
    trainer = training.Trainer(model, training.Recipe(steps=2000, batch=12))
    training.fit(trainer, lambda step: data.batch(step, size=12, seed=0))

Any model and any batch will do: a loss is a function of (model, batch), a batch whatever that loss takes.
"""

from minitx.training.data import Batch, TextData, next_token_loss, validation_loss
from minitx.training.loop import Diverged, Recipe, Trainer, fit
from minitx.training.plot import draw_losses
from minitx.training.state import load_state, read_state, save_state

__all__ = [
    "Batch",
    "Diverged",
    "Recipe",
    "TextData",
    "Trainer",
    "draw_losses",
    "fit",
    "load_state",
    "next_token_loss",
    "read_state",
    "save_state",
    "validation_loss",
]
