"""What a model of OpenVINO's IR takes and gives, read from its XML file alone.

https://docs.openvino.ai/2026/documentation/openvino-ir-format.html
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, parse

from lightbox.formats.signature import FileSignature, FileTensor

_DTYPES = {
    **{"FP32": 1, "FP64": 2, "I32": 3, "U8": 4, "I16": 5, "I8": 6, "STRING": 7, "I64": 9, "BOOL": 10},
    **{"BF16": 14, "U16": 17, "FP16": 19, "U32": 22, "U64": 23},
}
"""TensorFlow's number of a dtype by the precision of a port."""


def read_signature(path: Path) -> FileSignature:
    """Return what a file takes and gives.

    Raises OSError, and ValueError where it is damaged or no IR, or where the weights beside it are not whole.
    """
    try:
        net = parse(path).getroot()  # noqa: S314 - the owner's file; expat bounds what entities make of it
    except ParseError as error:
        raise ValueError(str(error)) from None
    layers = {layer.get("id"): layer for layer in net.iterfind("layers/layer")}
    if net.tag != "net" or not layers:
        raise ValueError(f"expected <net> with <layers>, got <{net.tag[:40]}>")
    _check_weights(path.with_suffix(".bin"), layers.values())
    edges = {edge.get("to-layer"): edge for edge in net.iterfind("edges/edge")}
    inputs, outputs = {}, {}
    for number, layer in layers.items():
        if layer.get("type") == "Parameter":
            port = _found(layer.find("output/port"), layer)
            name = _name(port, layer)
            inputs[name] = FileTensor(_dtype(port, layer), _input_shape(layer), name)
        elif layer.get("type") == "Result":
            port = _found(layer.find("input/port"), layer)
            edge = _found(edges.get(number), layer)
            source = _found(layers.get(edge.get("from-layer")), layer)
            name = _name(_found(source.find(f"output/port[@id='{edge.get('from-port')}']"), layer), layer)
            outputs[name] = FileTensor(_dtype(port, layer), _output_shape(port), name)
    if not outputs:
        raise ValueError("it has no output")
    return FileSignature(inputs, outputs)


def _found(element: Element | None, layer: Element) -> Element:
    if element is None:
        raise ValueError(f"the layer {layer.get('name')!r} is not connected")
    return element


def _name(port: Element, layer: Element) -> str:
    """Return the first of a tensor's names; a name's own commas are escaped. Without one it is called as its layer."""
    name, *_ = port.get("names", "").replace("\\,", "\0").split(",")
    return name.replace("\0", ",") or layer.get("name", "")


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
    """Return the shape of a port; without sizes it is a scalar or of an unknown rank, which cannot be told."""
    sizes = [int(dim.text or "") for dim in port.iterfind("dim")]
    return tuple(size if size >= 0 else None for size in sizes) or None


def _check_weights(path: Path, layers: Iterable[Element]) -> None:
    """Raise ValueError unless the file of weights is as long as the constants need."""
    constants = (layer.find("data") for layer in layers if layer.get("type") == "Const")
    need = max(
        (int(data.get("offset", 0)) + int(data.get("size", 0)) for data in constants if data is not None), default=0
    )
    have = path.stat().st_size if path.is_file() else 0
    if have < need:
        raise ValueError(f"{path} has {have:,} bytes, expected {need:,}" if path.is_file() else f"{path} is missing")
