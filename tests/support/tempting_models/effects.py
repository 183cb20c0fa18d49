"""Beyond arithmetic: strings, tables, parsing, state, randomness, assertions, loops, recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from support.tempting_models.cases import Case, Model, f32, flag, i32, i64, text

ROWS = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 10 - 1
_TEXTS = ["ab", "", "ä€".encode(), b"\xff\x00", "3.5"]


def _table(tf: Any) -> Callable[..., Any]:
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["cat", "dog"], [1, 2]), -1)
    lookup: Callable[..., Any] = table.lookup
    return lookup


def _labels(tf: Any) -> Callable[..., Any]:
    keys, values = tf.constant([0, 1], tf.int64), tf.constant(["cat", "dog"])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), "?")
    return lambda x: {"label": table.lookup(tf.argmax(x, 1)), "p": tf.reduce_max(x, 1)}


def _float_table(tf: Any) -> Callable[..., Any]:
    keys, values = tf.constant([0, 1], tf.int64), tf.constant([5.0, 6.0])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1.0)
    return lambda x: table.lookup(tf.argmax(x, 1))


def _example(**features: float) -> bytes:
    from lightbox.model_runtime.wire.messages import example_pb2

    example = example_pb2.Example()
    for name, value in features.items():
        example.features.feature[name].float_list.value.append(value)
    return bytes(example.SerializeToString())


def _parsed(tf: Any) -> Callable[..., Any]:
    features = {"a": tf.io.FixedLenFeature([], tf.float32), "b": tf.io.FixedLenFeature([1], tf.float32, 7.0)}
    return lambda x: tf.io.parse_example(x, features)


def _scored(tf: Any) -> Callable[..., Any]:
    features = {"a": tf.io.FixedLenFeature([2], tf.float32)}
    return lambda x: {"score": tf.reduce_sum(tf.io.parse_example(x, features)["a"], 1)}


TEXT = Model(
    "text",
    [
        Case("pass", {"x": text(None)}, lambda tf: tf.identity, [(_TEXTS,), ([],)]),
        Case("join", {"x": text(None)}, lambda tf: lambda x: tf.strings.join([x, x], "-"), [(_TEXTS,)]),
        Case("upper", {"x": text(None)}, lambda tf: tf.strings.upper, [(["ab", "Zz"],)]),
        Case("length", {"x": text(None)}, lambda tf: tf.strings.length, [(_TEXTS,)]),
        Case("equal", {"x": text(None)}, lambda tf: lambda x: tf.equal(x, "ab"), [(_TEXTS,)]),
        Case("to_number", {"x": text(None)}, lambda tf: tf.strings.to_number,
             [(["3.5", "-1e3", "inf"],), (["three"],)]),
        Case("hash", {"x": text(None)}, lambda tf: lambda x: tf.strings.to_hash_bucket_fast(x, 10), [(_TEXTS,)]),
        Case("split", {"x": text(None)}, lambda tf: lambda x: tf.strings.split(x).flat_values, [(["a b", "c"],)]),
        Case("from_number", {"x": f32(None)}, lambda tf: tf.strings.as_string, [([1.5, -2],)]),
        Case("beside", {"x": f32(None)}, lambda tf: lambda x: {"y": x * 2, "name": tf.constant(["a"])}, [([1.5],)]),
        Case("labels_beside", {"x": f32(None, 2)},
             lambda tf: lambda x: {"y": x * 2, "name": tf.gather(["cat", "dog"], tf.argmax(x, 1))}, [([[1, 2]],)]),
        Case("raw", {"x": text(None)}, lambda tf: lambda x: tf.io.decode_raw(x, tf.uint8),
             [(["ab", "cd"],), (["ab", "c"],)]),
        Case("table", {"x": text(None)}, _table, [(["cat", "cow", "dog"],)]),
        Case("labels", {"x": f32(None, 2)}, _labels, [([[1, 2], [2, 1]],)]),
        Case("float_table", {"x": f32(None, 2)}, _float_table, [([[1, 2], [2, 1]],)]),
        Case("parse", {"x": text(None)}, _parsed,
             [([_example(a=1), _example(a=2, b=3)],), ([_example(b=1)],), (["no"],)]),
        Case("score", {"x": text(None)}, _scored, [([_example(a=1)],)]),
    ],
)  # fmt: skip


def _counter(tf: Any) -> Callable[..., Any]:
    count = tf.Variable(0.0)
    return lambda x: x + count.assign_add(1.0)


def _reader(tf: Any) -> Callable[..., Any]:
    weights = tf.Variable([2.0, 3.0])

    def read(x: Any) -> Any:
        return x * weights

    return read


def _moving(tf: Any) -> Callable[..., Any]:
    mean = tf.Variable(0.0)

    def moved(x: Any) -> Any:
        with tf.control_dependencies([mean.assign(0.9 * mean + 0.1 * tf.reduce_mean(x))]):
            return x - mean.read_value()

    return moved


def _hidden_effect(tf: Any) -> Callable[..., Any]:
    count = tf.Variable(0)

    def counted(x: Any) -> Any:
        with tf.control_dependencies([count.assign_add(1)]):
            return {"y": x * 2, "count": count.read_value()}

    return counted


STATE = Model(
    "state",
    [
        Case("count", {"x": f32(None)}, _counter, [([1.0],), ([1.0],), ([1.0, 2.0],)]),
        Case("moving", {"x": f32(None)}, _moving, [([1.0],), ([1.0],)]),
        Case("hidden", {"x": f32(None)}, _hidden_effect, [([1.0],), ([1.0],)]),
        Case("read", {"x": f32(None, 2)}, _reader, [([[1, 2]],)]),
    ],
)


def _drop(tf: Any) -> Callable[..., Any]:
    return lambda x: tf.nn.dropout(x, 0.5)


CHANCE = Model(
    "chance",
    [
        Case("normal", {"x": f32(None)}, lambda tf: lambda x: x + tf.random.normal(tf.shape(x)), [([1, 2],)],
             is_random=True),
        Case("uniform", {"x": f32(None)}, lambda tf: lambda x: x + tf.random.uniform(tf.shape(x)), [([1, 2],)],
             is_random=True),
        Case("whole", {"x": f32(None)}, lambda tf: lambda x: tf.random.uniform(tf.shape(x), 0, 9, tf.int32),
             [([1],)], is_random=True),
        Case("dropout", {"x": f32(None)}, _drop, [([1, 2],)], is_random=True),
        Case("multinomial", {"x": f32(None, 3)}, lambda tf: lambda x: tf.random.categorical(x, 4), [([[0, 0, 0]],)],
             is_random=True),
        Case("shuffle", {"x": f32(None)}, lambda tf: tf.random.shuffle, [([1, 2, 3],)], is_random=True),
        Case("stateless", {"x": f32(None)}, lambda tf: lambda x: x + tf.random.stateless_uniform([2], [1, 2]),
             [([1, 2],)]),
    ],
)  # fmt: skip


def _checked(tf: Any) -> Callable[..., Any]:
    def checked(x: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_less(x, 10.0)]):
            return x * 2

    return checked


def _checked_aside(tf: Any) -> Callable[..., Any]:
    """An assertion that no output names: functions run it all the same."""

    def checked(x: Any) -> Any:
        tf.debugging.Assert(tf.reduce_all(x < 10.0), [x])
        return x * 2

    return checked


def _inner(tf: Any) -> Callable[..., Any]:
    inner = tf.function(lambda x: tf.nn.relu(x) + 1, autograph=False)
    outer: Callable[..., Any] = tf.function(lambda x: inner(inner(x)) * 2, autograph=False)
    return outer


def _inner_check(tf: Any) -> Callable[..., Any]:
    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def inner(x: Any) -> Any:
        tf.debugging.assert_positive(x)
        return x + 1

    return lambda x: inner(x) * 2


def _loop(tf: Any) -> Callable[..., Any]:
    def looped(x: Any, n: Any) -> Any:
        return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 1.5), [0, x])[1]

    return looped


def _wide_loop(tf: Any) -> Callable[..., Any]:
    one = tf.constant(1, tf.int64)

    def looped(x: Any) -> Any:
        found = tf.while_loop(lambda i, y: i < 40, lambda i, y: (i + 1, y * 2), [0, one])[1]
        return {"y": x, "power": found}

    return looped


def _growing(tf: Any) -> Callable[..., Any]:
    def grown(x: Any) -> Any:
        shapes = [tf.TensorShape([]), tf.TensorShape([None])]
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.concat([y, x], 0)), [0, x], shapes)[1]

    return grown


def _layers(tf: Any, layer: Any) -> Callable[..., Any]:
    tf.keras.utils.set_random_seed(1)
    layer.build((None, 3, 4))
    kept = tf.Module()
    kept.variables_of = [item.value for item in layer.variables]
    values = dict(zip((item.path for item in layer.variables), kept.variables_of, strict=True))
    return _with(layer, kept, values)


def _with(layer: Any, kept: Any, values: object) -> Callable[..., Any]:
    def called(x: Any) -> Any:
        assert kept, values
        return layer(x, training=False)

    return called


def _bidirectional(tf: Any) -> Any:
    return tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(3))


def _printed(tf: Any) -> Callable[..., Any]:
    def printed(x: Any) -> Any:
        tf.print("x", x)
        return x + 1

    return printed


def _deep(tf: Any) -> Callable[..., Any]:
    def deep(x: Any) -> Any:
        for _ in range(250):  # OpenVINO reads a chain in the cube of its length: of 1500 in ten minutes
            x = tf.tanh(x + 0.5)
        return x

    return deep


_OPEN = {"x": f32(None, 3, 4)}
_CALLS = [(ROWS,), (ROWS[:1],), (ROWS[:0],)]

CONTROL = Model(
    "control",
    [
        Case("asserted", {"x": f32(None)}, _checked, [([1, 2],), ([10],), ([],)]),
        Case("asserted_aside", {"x": f32(None)}, _checked_aside, [([1, 2],), ([10],)]),
        Case("asserted_inside", {"x": f32(None)}, _inner_check, [([1, 2],), ([-1],)]),
        Case("functions", {"x": f32(None)}, _inner, [([1, -2],)]),
        Case("cond", {"x": f32(None), "up": flag()}, lambda tf: lambda x, up: tf.cond(up, lambda: x + 1, lambda: x - 1),
             [([1], True), ([1], False)]),
        Case("cond_of_values", {"x": f32(None)}, lambda tf: lambda x: tf.cond(x[0] > 0, lambda: x * 2, lambda: -x),
             [([1],), ([-1],)]),
        Case("case", {"x": f32(None), "at": i32()},
             lambda tf: lambda x, at: tf.switch_case(at, [lambda: x, lambda: x * 2, lambda: x * 3]),
             [([1], 1), ([1], 9), ([1], -1)]),
        Case("loop", {"x": f32(None), "n": i32()}, _loop, [([1, 2], 3), ([1, 2], 0), ([1], -1)]),
        Case("wide_loop", {"x": f32(None)}, _wide_loop, [([1],)]),
        Case("growing", {"x": f32(None)}, _growing, [([1, 2],), ([],)]),
        Case("map", _OPEN, lambda tf: lambda x: tf.map_fn(lambda row: tf.reduce_sum(row, 0) * 2, x), _CALLS,
             not_eager=(2,)),
        Case("scan", _OPEN, lambda tf: lambda x: tf.scan(lambda total, row: total + row, x), _CALLS, not_eager=(2,)),
        Case("fold", {"x": f32(None)}, lambda tf: lambda x: tf.foldl(lambda total, item: total * 0.5 + item, x, 0.0),
             [([1, 2, 3],), ([],)]),
        Case("ragged", {"x": f32(None), "n": i64(None)}, lambda tf: lambda x,
             n: tf.RaggedTensor.from_row_lengths(x, n).to_tensor(),
             [([1, 2, 3], [2, 1]), ([1, 2, 3], [2, 2])]),
        Case("lstm", _OPEN, lambda tf: _layers(tf, tf.keras.layers.LSTM(5)), _CALLS, not_eager=(2,)),
        Case("lstm_all", _OPEN,
             lambda tf: _layers(tf, tf.keras.layers.LSTM(5, return_sequences=True, go_backwards=True)), _CALLS,
             not_eager=(2,)),
        Case("lstm_open", {"x": f32(None, None, 4)}, lambda tf: _layers(tf, tf.keras.layers.LSTM(5)),
             [*_CALLS, (ROWS[:, :0],)], not_eager=(2,)),
        Case("gru", _OPEN, lambda tf: _layers(tf, tf.keras.layers.GRU(5)), _CALLS),
        Case("gru_before", _OPEN, lambda tf: _layers(tf, tf.keras.layers.GRU(5, reset_after=False)), _CALLS),
        Case("rnn", _OPEN, lambda tf: _layers(tf, tf.keras.layers.SimpleRNN(5)), _CALLS),
        Case("bidirectional", _OPEN, lambda tf: _layers(tf, _bidirectional(tf)), _CALLS, not_eager=(2,)),
        Case("print", {"x": f32(None)}, _printed, [([1],)]),
        Case("python", {"x": f32(None)}, lambda tf: lambda x: tf.ensure_shape(x, [2]) * 2, [([1, 2],), ([1],)]),
        Case("deep", {"x": f32(None)}, _deep, [([1],)]),
        Case("gradient", {"x": f32(None)}, lambda tf: lambda x: tf.raw_ops.PreventGradient(input=x) * 2, [([1],)]),
        Case("identity_n", {"x": f32(None), "z": i32(None)},
             lambda tf: lambda x, z: dict(zip("ab", tf.identity_n([x, z]), strict=True)), [([1], [2, 3])]),
    ],
)  # fmt: skip


MODELS = (TEXT, STATE, CHANCE, CONTROL)
