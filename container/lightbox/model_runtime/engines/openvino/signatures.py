"""Which signatures of a SavedModel OpenVINO runs: those that pass the graph check and match in the comparison."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lightbox.model_runtime.engines import disk_cache
from lightbox.model_runtime.engines.base import Runner
from lightbox.model_runtime.engines.engine import Choice, Opened, OpenOptions
from lightbox.model_runtime.engines.hardware import INT8, PRECISIONS
from lightbox.model_runtime.engines.openvino.canary import Task, judge
from lightbox.model_runtime.engines.openvino.compiled import Compiled
from lightbox.model_runtime.engines.openvino.fallback import OpenVinoWithFallback
from lightbox.model_runtime.engines.openvino.graph import read_meta_graph
from lightbox.model_runtime.engines.openvino.graph_check import refusals
from lightbox.model_runtime.engines.openvino.int8 import quantized
from lightbox.model_runtime.engines.openvino.verdicts import (
    OPENVINO,
    TENSORFLOW,
    Key,
    Verdict,
    digest,
    keep,
    recall,
    remember,
)
from lightbox.model_runtime.engines.setting import IN_MODEL
from lightbox.model_runtime.wire.messages import meta_graph_pb2
from lightbox.model_runtime.wire.status import StatusError, invalid

log = logging.getLogger("model_server")


def open_beside(folder: str, options: OpenOptions, reference: Callable[[], Runner] | None) -> Opened | None:
    """See ``Engine.open_beside``. Unreadable graphs, such as the text form, are left to TensorFlow, with its error."""
    try:
        meta_graph = read_meta_graph(folder, options.tags)
    except StatusError:
        return None
    return open_readable(folder, meta_graph, options, reference)


def open_readable(
    folder: str,
    meta_graph: meta_graph_pb2.MetaGraphDef,
    options: OpenOptions,
    reference: Callable[[], Runner] | None = None,
) -> Opened:
    """Open what OpenVINO may run, and the rest with ``reference``; raise StatusError if there is nothing."""
    if options.chosen is None:
        verdicts = judged(folder, meta_graph, options)
    else:
        verdicts = {name: Verdict(engine, "chosen", engine == OPENVINO) for name, engine in options.chosen.items()}
    compiled = _compiled(folder, meta_graph, verdicts, options, is_exact=reference is not None)
    choices = {
        name: Choice(OPENVINO if name in compiled else TENSORFLOW, verdict.reason) for name, verdict in verdicts.items()
    }
    for name, choice in sorted(choices.items()):
        log.info("engine of %s, signature %s: %s (%s)", folder, name, choice.engine, choice.reason)
    if not compiled:
        if reference is not None:
            return Opened(reference(), choices)
        reasons = "; ".join(f"{name}: {choice.reason}" for name, choice in sorted(choices.items()))
        raise invalid(f"OpenVINO takes no signature of {folder}: {reasons}")
    session = OpenVinoWithFallback(meta_graph, compiled, choices, reference)
    session.warm(options.batches)
    return Opened(session, choices)


def choices(folder: str, options: OpenOptions, compares: bool, keeps: bool) -> Mapping[str, Choice]:
    """Return the engine of each signature, and why, where TensorFlow executes the first; see ``Engine.choices``."""
    verdicts = judged(folder, read_meta_graph(folder, options.tags), options, compares)
    if keeps:
        lasting = {name: verdict for name, verdict in verdicts.items() if verdict.lasts}
        place = Path(folder) / IN_MODEL
        remember(place, Key.of(folder, options.hardware.precision), lasting, disk_cache.read(place) or {})
    return {name: Choice(verdict.engine, verdict.reason) for name, verdict in verdicts.items()}


def judged(
    folder: str, meta_graph: meta_graph_pb2.MetaGraphDef, options: OpenOptions, compares: bool = True
) -> dict[str, Verdict]:
    """Return the verdict of each public signature: from the graph check, from the cache, or from a canary now.

    Without ``compares``, unknown signatures have no engine.
    """
    refused = refusals(meta_graph)
    verdicts = {name: Verdict(TENSORFLOW, why) for name, why in refused.items() if why is not None}
    open_ones = tuple(sorted(name for name, why in refused.items() if why is None))
    if not open_ones:
        return verdicts
    hardware = options.hardware
    if hardware.precision == INT8:
        return verdicts | _with_int8(folder, meta_graph, open_ones, options, compares)
    key = Key.of(folder, hardware.precision)
    known = recall(folder, key, hardware.cache_folder) or {}
    unknown = tuple(name for name in open_ones if name not in known)
    if unknown and not compares:
        known |= {name: Verdict("", "the engines are compared when the model is loaded") for name in unknown}
    elif unknown:
        known |= judge(Task(folder, options.tags, unknown, options.session_config.hex(), hardware))
        keep(key, hardware.cache_folder, known)
    return verdicts | {name: known[name] for name in open_ones}


def _with_int8(
    folder: str,
    meta_graph: meta_graph_pb2.MetaGraphDef,
    names: Sequence[str],
    options: OpenOptions,
    compares: bool,
) -> dict[str, Verdict]:
    """Return OpenVINO for the signatures with an INT8 model, and the f32 verdicts of the others."""
    model = digest(Path(folder))
    made = {name: found for name in names if (found := quantized(Path(folder), name, model)) is not None}
    in_f32 = replace(options, hardware=replace(options.hardware, precision="f32"))
    verdicts = {
        name: replace(verdict, reason=f"no INT8 model: {verdict.reason}")
        for name, verdict in judged(folder, meta_graph, in_f32, compares).items()
        if name in names and name not in made
    }
    if made and compares:
        task = Task(folder, options.tags, tuple(made), options.session_config.hex(), options.hardware)
        verdicts |= judge(task)
    for name, item in made.items():
        if not compares or verdicts[name].engine == OPENVINO:
            verdicts[name] = Verdict(OPENVINO, f"INT8: {item.summary}", lasts=False)
    return verdicts


def _compiled(
    folder: str,
    meta_graph: meta_graph_pb2.MetaGraphDef,
    verdicts: dict[str, Verdict],
    options: OpenOptions,
    is_exact: bool,
) -> dict[str, Compiled]:
    """Compile the signatures for OpenVINO: the faster ones, or all equal ones without a reference."""
    compiled = {}
    for name, verdict in verdicts.items():
        is_taken = verdict.engine == OPENVINO or (verdict.is_equal and not is_exact)
        if not is_taken:
            continue
        if not verdict.is_equal:
            is_chosen = options.hardware.precision != PRECISIONS[0] and verdict.engine == OPENVINO
            why = verdict.reason if is_chosen else f"never compared: {verdict.reason}"
            log.warning("signature %s of %s: OpenVINO's results may differ from TensorFlow's: %s", name, folder, why)
        try:
            compiled[name] = Compiled(folder, meta_graph, name, options.hardware, is_exact)
        except StatusError as error:
            verdicts[name] = Verdict(TENSORFLOW, error.message)
    return compiled
