"""The parts of a tempting model: signatures, each with a function and its calls."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Make: TypeAlias = Callable[[Any], Callable[..., Any]]
"""Takes the module ``tensorflow`` and returns the function of a signature, with a tensor or a dict of them."""

EXPECTED = "expected.pickle"


@dataclass(frozen=True)
class Spec:
    """An input as a signature declares it; the shape is None where the rank is not known."""

    dtype: str
    shape: tuple[int | None, ...] | None


def f32(*shape: int | None) -> Spec:
    return Spec("float32", shape)


def i32(*shape: int | None) -> Spec:
    return Spec("int32", shape)


def i64(*shape: int | None) -> Spec:
    return Spec("int64", shape)


def u8(*shape: int | None) -> Spec:
    return Spec("uint8", shape)


def flag(*shape: int | None) -> Spec:
    return Spec("bool", shape)


def text(*shape: int | None) -> Spec:
    return Spec("string", shape)


def named(path: str) -> Make:
    """Return the maker of TensorFlow's own function of that name, such as "math.log"."""
    return operator.attrgetter(path)


@dataclass(frozen=True)
class Case:
    """A signature. Each call has a value for each input, in order; what is no array becomes one of the spec's dtype.

    ``is_random``: values differ from call to call, only dtypes and shapes are compared. ``not_eager``: numbers of calls
    that TensorFlow itself answers otherwise where it runs a whole graph.
    """

    name: str
    inputs: Mapping[str, Spec]
    make: Make
    calls: Sequence[tuple[Any, ...]]
    is_random: bool = False
    not_eager: tuple[int, ...] = ()

    def feeds(self, index: int) -> dict[str, Array]:
        """Return the inputs of a call by name."""
        values = zip(self.inputs.items(), self.calls[index], strict=True)
        return {name: _array(value, spec) for (name, spec), value in values}

    def fits(self, index: int) -> bool:
        """Whether the inputs of a call match the signature."""
        return all(_fits(array, self.inputs[name]) for name, array in self.feeds(index).items())


def _array(value: Any, spec: Spec) -> Array:
    if isinstance(value, np.ndarray):
        return value
    if spec.dtype == "string":
        return np.array(value, object)
    if spec.dtype == "bfloat16":
        import ml_dtypes

        return np.array(value, ml_dtypes.bfloat16)
    return np.array(value, spec.dtype)


def _fits(array: Array, spec: Spec) -> bool:
    if (array.dtype.name if array.dtype.kind != "O" else "string") != spec.dtype:
        return False
    if spec.shape is None:
        return True
    sizes = zip(array.shape, spec.shape, strict=False)
    return array.ndim == len(spec.shape) and all(want in (None, have) for have, want in sizes)


@dataclass(frozen=True)
class Answer:
    """The result of a call: an error code, or arrays by name."""

    code: str = "OK"
    outputs: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """A SavedModel; ``export``, where it is given, writes it and returns its functions by signature."""

    name: str
    cases: Sequence[Case]
    export: Callable[[Any, Path], Mapping[str, Callable[..., Any]]] | None = None

    def save(self, tf: Any, folder: Path) -> None:
        """Write ``folder/1`` and, beside it, eager TensorFlow's result for each call."""
        functions = self.export(tf, folder / "1") if self.export else self._save(tf, folder / "1")
        expected = {
            (case.name, index): eager(tf, functions[case.name], case.feeds(index))
            for case in self.cases
            for index in range(len(case.calls))
            if case.fits(index) and index not in case.not_eager
        }
        (folder / EXPECTED).write_bytes(pickle.dumps(expected))

    def _save(self, tf: Any, folder: Path) -> Mapping[str, Callable[..., Any]]:
        module = tf.Module()
        module.kept = []
        functions = {case.name: case.make(tf) for case in self.cases}
        signatures = {}
        for case in self.cases:
            # A SavedModel has the variables and tables that its module refers to.
            cells = getattr(functions[case.name], "__closure__", None) or ()
            owner = getattr(functions[case.name], "__self__", None)
            contents = [owner, *(cell.cell_contents for cell in cells)]
            module.kept.extend(item for item in contents if isinstance(item, tf.__internal__.tracking.Trackable))
            signatures[case.name] = _traced(tf, functions[case.name], case)
        tf.saved_model.save(module, str(folder), signatures=signatures)
        return functions


def _traced(tf: Any, function: Callable[..., Any], case: Case) -> Any:
    specs = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in case.inputs.items()]

    def serve(*tensors: Any) -> Any:
        return _named(function(*tensors))

    return tf.function(serve, autograph=False).get_concrete_function(*specs)


def _named(result: Any) -> dict[str, Any]:
    return result if isinstance(result, dict) else {"y": result}


def eager(tf: Any, function: Callable[..., Any], feeds: Mapping[str, Array]) -> Answer:
    """Call a function operation by operation, as no server does."""
    try:
        result = _named(function(*(tf.constant(array) for array in feeds.values())))
    except tf.errors.OpError as error:
        return Answer(grpc_name(tf, error.error_code))
    except ValueError:  # Python's own shape check
        return Answer("INVALID_ARGUMENT")
    return Answer(outputs={name: np.asarray(value) for name, value in result.items()})


def grpc_name(tf: Any, code: int) -> str:
    """Return the name of an error's code, which is the same for gRPC and for TensorFlow."""
    names = {value: name for name, value in vars(tf.errors).items() if isinstance(value, int)}
    return str(names[code])
