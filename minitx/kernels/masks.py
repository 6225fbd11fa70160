"""What a boolean mask says about a block of keys, so that most blocks need no look at its elements.

A mask has four axes, each 1 or that of (B, H, n, m); True = may attend.
"""

import numpy as np

from minitx.kernels.blocks import TILE
from minitx.kernels.compiler import compiled

HIDDEN, MIXED, CLEAR = 0, 1, 2


@compiled()
def row_of_mask(mask, b, h, i):
    """The mask's last axis for one query: m elements, or 1 for all keys."""
    return mask[b if mask.shape[0] > 1 else 0, h if mask.shape[1] > 1 else 0, i if mask.shape[2] > 1 else 0]


@compiled()
def trim(row, begin, end):
    """begin and end, brought together over the keys at either side that the mask's row hides."""
    if row.size == 1:
        return begin, end if row[0] else begin
    while begin < end and not row[begin]:
        begin += 1
    while begin < end and not row[end - 1]:
        end -= 1
    return begin, end


@compiled()
def keys_in_reach(mask, masked, b, h, begin, end):
    """begin and end without the padding at either side: keys that the mask hides from all queries."""
    if masked and mask.shape[2] == 1:
        return trim(row_of_mask(mask, b, h, 0), begin, end)
    return begin, end


@compiled()
def kind_of_block(mask, masked, b, h, first, rows, start, stop):
    """HIDDEN, MIXED or CLEAR: may no, some or every query of the tile attend to the keys of the block?"""
    if not masked:
        return CLEAR
    allowed, seen = 0, 0
    for i in range(first, first + (rows if mask.shape[2] > 1 else 1)):
        row = row_of_mask(mask, b, h, i)
        if row.size > 1:
            row = row[start:stop]
        allowed += np.count_nonzero(row)
        seen += row.size
        if 0 < allowed < seen:
            return MIXED
    return CLEAR if allowed else HIDDEN


@compiled()
def fill_future(gap, count, tile):
    """tile[j, i] = -inf where i < gap + j: queries that come before the key of row j."""
    for j in range(max(0, 1 - gap), count):
        for i in range(min(TILE, gap + j)):
            tile[j, i] = -np.inf


@compiled()
def fill_hidden(mask, b, h, first, rows, start, stop, tile, value):
    """tile[j, i] = value where query first + i may not attend to key start + j."""
    for i in range(rows):
        row = row_of_mask(mask, b, h, first + i)
        if row.size > 1:
            for j in range(stop - start):
                if not row[start + j]:
                    tile[j, i] = value
        elif not row[0]:
            for j in range(stop - start):
                tile[j, i] = value
