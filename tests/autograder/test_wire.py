"""The protocol carries plain data and numeric arrays, and nothing that a hostile peer sends gets further."""

import contextlib
import json
import socket
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from autograder.sandbox import wire


def refuse(value):
    raise AssertionError(f"no handle expected, got one for {value!r}")


def round_trip(value):
    encode = wire.Encoder(refuse)
    node = encode(value)
    return wire.Decoder(b"".join(encode.blobs), refuse)(json.loads(json.dumps(node)))


NUMERIC = hnp.arrays(
    st.sampled_from(["?", "<i2", "<i8", "<u1", "<f2", "<f4", "<f8", "<c8", "<c16", ">f8"]),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3),
)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(max_size=20)
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_plain_data_comes_back_equal_and_of_the_same_type(value):
    back = round_trip(value)
    assert back == value
    assert type(back) is type(value)


@given(NUMERIC)
def test_a_numeric_array_comes_back_bit_for_bit(array):
    back = round_trip(array)
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize("value", [np.float32(2.5), np.int64(-3), np.bool_(True), np.complex64(1j)])
def test_a_numpy_scalar_keeps_its_type(value):
    assert type(round_trip(value)) is type(value)
    assert round_trip(value) == value


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), slice(1, None, 2), Ellipsis, 2**200, -(2**70), {1, 2}, 3 + 4j]
)
def test_other_plain_values_survive(value):
    back = round_trip(value)
    assert back == value or (back != back and value != value)


class Sneaky(np.ndarray):
    pass


class Weight(float):
    def __eq__(self, other):
        return True

    __hash__ = float.__hash__


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(2).view(Sneaky),
        Weight(3.0),
        np.array([object()]),
        np.array(["a"]),
        object(),
        np.ma.masked_array([1.0]),
    ],
    ids=["ndarray subclass", "float subclass", "object array", "string array", "object", "masked array"],
)
def test_anything_that_could_lie_about_itself_becomes_a_handle(value):
    met = []
    wire.Encoder(lambda item: met.append(item) or {"t": "handle", "v": 0})(value)
    assert len(met) == 1
    assert met[0] is value


def test_a_value_nested_too_deeply_or_with_too_many_items_is_refused_with_a_reason():
    deep = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(wire.TooLarge, match="nested more than 40 deep"):
        wire.Encoder(refuse)(deep)
    with pytest.raises(wire.TooLarge, match="return an array instead"):
        wire.Encoder(refuse)(list(range(wire.MAX_ITEMS + 1)))
    with pytest.raises(wire.TooLarge, match="at most"):
        wire.Encoder(refuse)(np.zeros(wire.MAX_BLOB // 8 + 1))


BROKEN_NODES = [
    [1, 2],
    {"t": "array", "d": "|O8", "s": [1], "v": [0, 8]},
    {"t": "array", "d": "<f8", "s": [2], "v": [0, 8]},
    {"t": "array", "d": "<f8", "s": [-1], "v": [0, 8]},
    {"t": "array", "d": "<f8", "s": [1], "v": [8, 8]},
    {"t": "array", "d": "<f8", "s": [1], "v": [True, 8]},
    {"t": "array", "d": "<f7", "s": [1], "v": [0, 7]},
    {"t": "array", "d": ["f8"], "s": [1], "v": [0, 8]},
    {"t": "array", "d": "<f8", "s": [2**62, 4], "v": [0, 0]},
    {"t": "array", "d": "<f8", "s": [1] * 40, "v": [0, 8]},
    {"t": "array", "d": "<f8", "s": [2**70], "v": [0, 8]},
    {"t": "array", "d": "<f8", "s": [0, 2**70], "v": [0, 0]},
    {"t": "dict", "v": [[{"t": "list", "v": []}, 1]]},
    {"t": "dict", "v": [[1]]},
    {"t": "slice", "v": [1]},
    {"t": "set", "v": 3},
    {"t": "int", "v": "zz"},
    {"t": "int", "v": 3},
    {"t": "complex", "v": ["1", 2]},
    {"t": "bytes", "v": [0, 9]},
]


@pytest.mark.parametrize("node", BROKEN_NODES, ids=str)
def test_a_damaged_value_is_a_protocol_error_and_nothing_else(node):
    with pytest.raises(wire.ProtocolError):
        wire.Decoder(b"12345678", refuse)(node)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(["array", "list", "<f8", "int"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["t", "v", "d", "s", "x"]), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(JSON, st.binary(max_size=32))
def test_no_json_makes_the_decoder_raise_anything_but_a_protocol_error(node, blob):
    def strict(inner):
        raise wire.ProtocolError("no handle")

    with contextlib.suppress(wire.ProtocolError):
        wire.Decoder(blob, strict)(node)


@given(st.binary(max_size=64))
def test_no_bytes_make_a_channel_raise_anything_but_its_own_errors(data):
    ours, theirs = socket.socketpair()
    theirs.sendall(data)
    theirs.close()
    try:
        wire.Channel(ours).receive(time.monotonic() + 5)
    except (wire.ProtocolError, wire.Closed):
        pass
    finally:
        ours.close()


def test_a_frame_that_announces_too_much_is_refused_before_it_is_read():
    ours, theirs = socket.socketpair()
    theirs.sendall(wire.LENGTHS.pack(10, wire.MAX_BLOB + 1))
    with pytest.raises(wire.ProtocolError, match="larger than the limit"):
        wire.Channel(ours).receive(time.monotonic() + 5)


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b"{", b"[]", b"\xff\xfe", b'{"a": ' + b"9" * 10_000 + b"}"], ids=lambda t: t[:8]
)
def test_a_header_that_is_no_json_object_is_a_protocol_error(text):
    with pytest.raises(wire.ProtocolError):
        wire.unpack_header(text)


def test_a_peer_that_sends_half_a_frame_and_waits_is_late():
    ours, theirs = socket.socketpair()
    theirs.sendall(wire.pack({"id": 1}, [b"abc"])[:-2])
    with pytest.raises(wire.Late):
        wire.Channel(ours).receive(time.monotonic() + 0.05)


def test_a_large_array_crosses_whole():
    ours, theirs = socket.socketpair()
    data = np.random.default_rng(0).random(1_000_000)
    encode = wire.Encoder(refuse)
    frame = wire.pack({"value": encode(data)}, encode.blobs)
    sender = threading.Thread(target=wire.Channel(theirs).send, args=(frame,))
    sender.start()
    header, blob = wire.Channel(ours).receive(time.monotonic() + 30)
    sender.join()
    assert np.array_equal(wire.Decoder(blob, refuse)(header["value"]), data)
