"""Checks that the variables of a SavedModel are there, before anything loads them.

A model server restores variables with the graph's restore operation. Without ``variables/`` it restores nothing and
reports the model as loaded (TensorFlow's ``RunRestore`` in cc/saved_model/loader.cc); then every prediction fails. What
the files hold is the load's to check: its error names what is missing (docs/adr/091-inconclusive-checks.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from lightbox.model_files.foreign_files import POINTER, is_pointer_file
from lightbox.model_files.tf_graph import Graph, MetaGraph, Node, base_name
from lightbox.model_runtime.deadline import in_time

FOLDER, INDEX = "variables", "variables/variables.index"

_DATA = re.compile(r"variables\.data-[0-9]{5}-of-([0-9]{5})")
_NOT_A_VARIABLE = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""Keras's description of its objects: stored with the variables, and not needed."""
_MOST_VARIABLES = 1_000_000
_SHOWN = 3


def variables_problem(folder: Path, meta_graph: MetaGraph) -> str | None:
    """Return the problem of the variables of a SavedModel in ``folder``, None if none is found.

    Raises OSError for unreadable files.
    """
    restored = set(islice(_restored(meta_graph), _MOST_VARIABLES))
    if not restored:
        return None
    index = folder / INDEX
    if not index.exists():
        return f"{index} is missing: the graph restores {len(restored)} variables from it, {_some(restored)}"
    for file in (index, *_data_files(folder / FOLDER)):
        if not file.exists():
            return f"{file} is missing: the graph restores {len(restored)} variables, {_some(restored)}"
        if is_pointer_file(file):
            return f"{file} {POINTER}"
    return None


def _data_files(folder: Path) -> list[Path]:
    """Return the files that hold the variables. Each name has the number of all of them."""
    numbers = [int(match[1]) for file in folder.iterdir() if (match := _DATA.fullmatch(file.name))]
    count = max(numbers, default=1)
    return [folder / f"variables.data-{place:05}-of-{count:05}" for place in range(count)]


def _some(names: Iterable[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:_SHOWN]) + (", …" if len(shown) > _SHOWN else "")


def _restored(meta_graph: MetaGraph) -> Iterator[str]:
    """Yield the name of each variable that the graph restores."""
    graph = Graph(meta_graph)
    operation = base_name(meta_graph.saver_def.restore_op_name)
    if operation not in graph.nodes:
        return
    function = graph.called_by(graph.nodes[operation])
    inside = _needed_by(operation, graph.nodes) if function is None else function.nodes
    for restore in in_time([node for node in inside.values() if node.op == "RestoreV2"]):
        names = inside.get(base_name(restore.input[1])) if len(restore.input) > 1 else None
        yield from (name for name in _strings(names) if name != _NOT_A_VARIABLE)


def _needed_by(operation: str, nodes: dict[str, Node]) -> dict[str, Node]:
    """Return the nodes that an operation depends on."""
    needed: dict[str, Node] = {}
    remaining = [operation]
    while remaining:
        name = remaining.pop()
        if name in nodes and name not in needed:
            needed[name] = nodes[name]
            remaining += map(base_name, nodes[name].input)
    return needed


def _strings(constant: Node | None) -> list[str]:
    """Return the elements of a constant of strings; none for another node."""
    if constant is None or constant.op != "Const":
        return []
    return [text.decode(errors="replace") for text in constant.attr["value"].tensor.string_val]
