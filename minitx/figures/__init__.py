"""The course's figures: each function draws one, with matplotlib, and returns it."""

from minitx.figures.attention import (
    attention_heatmap,
    hard_and_soft_lookup,
    heatmaps_side_by_side,
    masks_side_by_side,
    scale_and_saturation,
    shapes_in_one_head,
)
from minitx.figures.autograd import broadcast_and_back, computation_graph
from minitx.figures.causal import loss_curves, predictions_at_once
from minitx.figures.cost import before_and_after, blocks_of_keys, growth, merged_grid, score_tables
from minitx.figures.expert import paths_from_above, two_towers, ways_around
from minitx.figures.gpt import (
    attention_rows,
    chances_side_by_side,
    learning_rates,
    parts_of_a_gpt,
    training_curves,
)
from minitx.figures.heads import grouped_queries, split_of_heads, stream_sizes, two_blocks
from minitx.figures.order import map_with_weights, position_code, tables_side_by_side
from minitx.figures.page import cache_against_recomputing, shapes_from_tokens

__all__ = [
    "attention_heatmap",
    "attention_rows",
    "before_and_after",
    "blocks_of_keys",
    "broadcast_and_back",
    "cache_against_recomputing",
    "chances_side_by_side",
    "computation_graph",
    "grouped_queries",
    "growth",
    "hard_and_soft_lookup",
    "heatmaps_side_by_side",
    "learning_rates",
    "loss_curves",
    "map_with_weights",
    "masks_side_by_side",
    "merged_grid",
    "parts_of_a_gpt",
    "paths_from_above",
    "position_code",
    "predictions_at_once",
    "scale_and_saturation",
    "score_tables",
    "shapes_from_tokens",
    "shapes_in_one_head",
    "split_of_heads",
    "stream_sizes",
    "tables_side_by_side",
    "training_curves",
    "two_blocks",
    "two_towers",
    "ways_around",
]
