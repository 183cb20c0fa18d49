"""Reads the inputs and outputs of a model of OpenVINO's IR from its XML file alone.

https://docs.openvino.ai/2026/documentation/openvino-ir-format.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn, TypeAlias
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from lightbox.model_runtime.access import MOST_TEXT, read_file
from lightbox.model_runtime.deadline import check_deadline
from lightbox.model_runtime.formats.signature import ENDS, INFO, FileSignature, FileTensor, check_weights

_DTYPES = {
    **{"FP32": 1, "FP64": 2, "I32": 3, "U8": 4, "I16": 5, "I8": 6, "STRING": 7, "I64": 9, "BOOL": 10},
    **{"U16": 17, "FP16": 19, "U32": 22, "U64": 23},
}
"""TensorFlow's number of a dtype by the precision of a port. BF16 is missing: OpenVINO's tensors are numpy arrays,
which have no BF16, and its outputs would be read as FP16."""
_OF_FORM, _MOST_OF_FORM = {"Convert", "Reshape", "Squeeze", "Unsqueeze"}, 100
"""Operations that keep a tensor's numbers, and most of them in a row."""
_NAMED_OUTPUTS = 11
"""The version of the IR since which tensors have names."""
MOST_PARTS = 1_000_000
"""Most elements and attributes of a file. One of 10,000 layers has 400,000."""
_AT_ONCE = 1 << 18
_Elements: TypeAlias = Mapping[str | None, Element]
_Ports: TypeAlias = dict[str | None, tuple[int, Element]]
"""A layer's outputs with their places, by their ids."""


def read_signature(path: Path) -> FileSignature:
    """Return the signature of a file.

    Raises OSError, and ValueError for a damaged file, another format, or incomplete weights.
    """
    net = _parsed(read_file(path, MOST_TEXT))
    layers = {layer.get("id"): layer for layer in net.iterfind("layers/layer")}
    if net.tag != "net" or not layers:
        raise ValueError(f"expected <net> with <layers>, got <{net.tag[:40]}>")
    if need := _weights_size(layers.values()):
        check_weights(path.with_suffix(".bin"), need)
    edges = {edge.get("to-layer"): edge for edge in net.iterfind("edges/edge")}
    inputs, outputs, notes = {}, {}, _model_info(net)
    firsts = {edge.get("to-layer"): edge for edge in net.iterfind("edges/edge") if notes and edge.get("to-port") == "0"}
    ports: dict[str | None, _Ports] = {}
    for number, layer in layers.items():
        if layer.get("type") == "Parameter":
            port = _found(layer.find("output/port"), layer)
            name = _name(port, layer)
            inputs[name] = FileTensor(_dtype(port, layer), _input_shape(layer), name)
        elif layer.get("type") == "Result":
            port = _found(layer.find("input/port"), layer)
            edge = _found(edges.get(number), layer)
            source = _found(layers.get(edge.get("from-layer")), layer)
            if (place := edge.get("from-layer")) not in ports:  # many may be of one layer
                found = source.findall("output/port")
                ports[place] = {port.get("id"): (at, port) for at, port in reversed(list(enumerate(found)))}
            name = _output_name(net, layer, source, ports[place], edge.get("from-port"))
            outputs[name] = FileTensor(_dtype(port, layer), _output_shape(port), name)
            if notes:
                notes[f"{ENDS}{name}"] = _maker(layers, firsts, source)
    if not outputs:
        raise ValueError("it has no output")
    return FileSignature(inputs, outputs, notes)


def _model_info(net: Element) -> dict[str, str]:
    """Return what OpenVINO's ModelAPI reads: the values of ``rt_info/model_info``."""
    found = net.find("rt_info/model_info")
    return {f"{INFO}{one.tag}": one.get("value", "") for one in found or ()}


def _maker(layers: _Elements, firsts: _Elements, layer: Element) -> str:
    """Return the operation that has made the numbers of a layer's output. ``firsts`` are edges to a first input."""
    for _ in range(_MOST_OF_FORM):
        if layer.get("type") not in _OF_FORM:
            break
        edge = firsts.get(layer.get("id"))
        if edge is None or (before := layers.get(edge.get("from-layer"))) is None:
            break
        layer = before
    return layer.get("type", "")


def _parsed(text: bytes) -> Element:
    """Return the root of a document. Raises ValueError, also for more than MOST_PARTS and for declarations."""
    parser = XMLParser(target=_Tree())  # noqa: S314 - it takes no declarations, so no entities
    try:
        for start in range(0, len(text), _AT_ONCE):
            check_deadline()
            parser.feed(text[start : start + _AT_ONCE])
        found: Element = parser.close()
    except ParseError as error:
        raise ValueError(str(error)) from None
    return found


class _Tree(TreeBuilder):
    """Elements; each takes some hundred bytes of memory, and so do its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self._left = MOST_PARTS

    def start(self, tag: str, attrs: dict[str, str], /) -> Element:
        self._left -= 1 + len(attrs)
        if self._left < 0:
            raise ValueError(f"it has more than {MOST_PARTS:,} elements and attributes")
        return super().start(tag, attrs)

    def doctype(self, *_: str | None) -> NoReturn:
        raise ValueError("it has a declaration, which no IR has")


def _found(element: Element | None, layer: Element) -> Element:
    if element is None:
        raise ValueError(f"the layer {layer.get('name')!r} is not connected")
    return element


def _name(port: Element, layer: Element) -> str:
    """Return the first of a tensor's names; without one it is called as its layer."""
    return _first(port.get("names", "")) or layer.get("name", "")


def _output_name(net: Element, layer: Element, source: Element, ports: _Ports, number: str | None) -> str:
    """Return an output's name, which is its own where several outputs are of one tensor, or the tensor's.

    Before tensors had names an output was called as the layer that it is of, with the number of a layer's output
    where that has several.
    """
    place, port = ports.get(number, (0, None))
    port = _found(port, layer)
    if int(net.get("version", _NAMED_OUTPUTS)) < _NAMED_OUTPUTS:
        return source.get("name", "") + (f".{place}" if len(ports) > 1 else "")
    return _first(layer.get("output_names", "")) or _name(port, layer)


def _first(names: str) -> str:
    """Return the first of several names; a name's own commas are escaped."""
    name, *_ = names.replace("\\,", "\0").split(",")
    return name.replace("\0", ",")


def _dtype(port: Element, layer: Element) -> int:
    precision = port.get("precision", "")
    if precision not in _DTYPES:
        raise ValueError(f"{layer.get('name')!r} has the precision {precision!r}, which cannot be served")
    return _DTYPES[precision]


def _input_shape(layer: Element) -> tuple[int | None, ...] | None:
    """Return a shape that is written as ``?,3,1..8``, or ``...`` for an unknown rank."""
    sizes = _found(layer.find("data"), layer).get("shape", "")
    if sizes == "...":
        return None
    return tuple(int(size) if size.isdecimal() else None for size in sizes.split(",") if size)


def _output_shape(port: Element) -> tuple[int | None, ...] | None:
    """Return the shape of a port; without sizes it is a scalar or of unknown rank, which cannot be distinguished."""
    sizes = [int(dim.text or "") for dim in port.iterfind("dim")]
    return tuple(size if size >= 0 else None for size in sizes) or None


def _weights_size(layers: Iterable[Element]) -> int:
    """Return how long the file of weights has to be for the constants."""
    constants = (layer.find("data") for layer in layers if layer.get("type") == "Const")
    return max(
        (int(data.get("offset", 0)) + int(data.get("size", 0)) for data in constants if data is not None), default=0
    )
