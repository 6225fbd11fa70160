"""Models made of `nn`: each a configuration and a module."""

from minitx.models.bert import Bert, BertConfig
from minitx.models.decoder import Decoder
from minitx.models.encoder import PolylineEncoder, SceneEncoder
from minitx.models.expert import ActionExpert, ActionExpertConfig
from minitx.models.gpt import GPT, GPTConfig
from minitx.models.llama import Llama, LlamaConfig
from minitx.models.transformer import Encoder, Transformer

__all__ = [
    "GPT",
    "ActionExpert",
    "ActionExpertConfig",
    "Bert",
    "BertConfig",
    "Decoder",
    "Encoder",
    "GPTConfig",
    "Llama",
    "LlamaConfig",
    "PolylineEncoder",
    "SceneEncoder",
    "Transformer",
]
