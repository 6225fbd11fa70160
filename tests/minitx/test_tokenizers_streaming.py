"""Text that comes token by token: whole characters only, and cut where a stop string is met."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitx.tokenizers import ByteLevelBPE, StopStrings
from minitx.tokenizers.splitting import BYTE_TO_CHARACTER

MERGED = ByteLevelBPE.train(
    "the theme of the thesis, naïve café \N{GRINNING FACE}\N{GRINNING FACE} 日本語 日本語" * 3, 300
)
texts = st.text(st.characters(exclude_categories=("Cs",), codec="utf-8")) | st.text(
    st.sampled_from("the é\N{GRINNING FACE}日")
)


@given(text=texts, cut=st.integers(0, 3))
def test_streaming_gives_whole_characters_and_the_same_text(text, cut):
    ours = MERGED
    ids = ours.encode(text)
    ids = ids[: len(ids) - cut]
    decoder = ours.streaming_decoder()
    pieces = [decoder.push(token) for token in ids]
    assert "\ufffd" not in "".join(pieces) or "\ufffd" in text
    assert "".join(pieces) + decoder.finish() == ours.decode(ids)


def test_an_emoji_appears_with_its_last_byte_and_not_before():
    ours = ByteLevelBPE(BYTE_TO_CHARACTER, [])
    decoder = ours.streaming_decoder()
    pieces = [decoder.push(token) for token in ours.encode("\N{GRINNING FACE}é")]
    assert pieces == ["", "", "", "\N{GRINNING FACE}", "", "é"]
    assert decoder.push(ours.encode("é")[0]) == ""
    assert decoder.finish() == "\ufffd"
    assert decoder.finish() == ""


@given(ids=st.lists(st.integers(0, 255)))
def test_streaming_bytes_that_are_no_utf8_gives_the_text_of_decode(ids):
    ours = ByteLevelBPE(BYTE_TO_CHARACTER, [])
    decoder = ours.streaming_decoder()
    assert "".join(decoder.push(token) for token in ids) + decoder.finish() == bytes(ids).decode(
        "utf-8", "replace"
    )


def plain_stop(text, stops):
    """By the definition: character by character, until the text so far ends with a stop string."""
    for end in range(1, len(text) + 1):
        met = [stop for stop in stops if text[:end].endswith(stop)]
        if met:
            longest = max(met, key=len)
            return text[: end - len(longest)], longest
    return text, None


@given(
    text=st.text(st.sampled_from("ab\n"), max_size=30),
    stops=st.lists(st.text(st.sampled_from("ab\n"), min_size=1, max_size=4), max_size=3),
    cuts=st.lists(st.integers(0, 30), max_size=8),
)
def test_stop_strings_cut_at_the_same_place_however_the_text_comes(text, stops, cuts):
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    until = StopStrings(stops)
    shown = "".join(until.push(text[a:b]) for a, b in pairwise(edges)) + until.finish()
    assert (shown, until.met) == plain_stop(text, stops)


def test_stop_strings_hold_back_no_more_than_they_must():
    until = StopStrings(["\n\nUser:"])
    assert [until.push(piece) for piece in ("Yes.", "\n", "\nUs", "ually")] == ["Yes.", "", "", "\n\nUsually"]
    assert [until.push(piece) for piece in ("\n\nUser", ": no")] == ["", ""]
    assert until.met == "\n\nUser:"
    assert until.finish() == ""


def test_stop_strings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="cannot be empty"):
        StopStrings(["a", ""])
    with pytest.raises(TypeError, match=r"write \['end'\]"):
        StopStrings("end")
