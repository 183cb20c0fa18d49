"""The canary: OpenVINO and TensorFlow run the same inputs in a child process, which may crash.

The child prints one line of JSON for each signature; lines before a crash count.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from lightbox.model_runtime.engines import samples
from lightbox.model_runtime.engines.base import Array, Runner
from lightbox.model_runtime.engines.comparison import difference
from lightbox.model_runtime.engines.hardware import INT8, PRECISIONS, Hardware
from lightbox.model_runtime.engines.openvino.compiled import DEFAULT_SIGNATURE, Compiled
from lightbox.model_runtime.engines.openvino.graph import read_meta_graph
from lightbox.model_runtime.engines.openvino.guards import REASONS
from lightbox.model_runtime.engines.openvino.verdicts import OPENVINO, TENSORFLOW, Verdict
from lightbox.model_runtime.engines.own_process import run
from lightbox.model_runtime.wire import tensor_proto
from lightbox.model_runtime.wire.messages import meta_graph_pb2, prediction_log_pb2
from lightbox.model_runtime.wire.records import WARM_UP_FILE, records
from lightbox.model_runtime.wire.status import StatusError

log = logging.getLogger("model_server")

GAIN, GAIN_SECONDS = 0.1, 2e-5
"""Required saving of CPU time: a share of TensorFlow's, and an absolute minimum."""

_FAULTS = {f"ended by signal {number:d}" for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE)}
_ROUNDS, _LONGEST_SECONDS = 25, 3.0


@dataclass(frozen=True)
class Task:
    """The child's work: signatures of one SavedModel."""

    folder: str
    tags: tuple[str, ...]
    signatures: tuple[str, ...]
    session_config: str
    """The serialized ConfigProto of TensorFlow's session, in hexadecimal digits."""
    hardware: Hardware


def judge(task: Task) -> dict[str, Verdict]:
    """Return a verdict for each signature of the task; a crash counts against the current signature."""
    verdicts: dict[str, Verdict] = {}
    while left := tuple(name for name in task.signatures if name not in verdicts):
        log.info("comparing OpenVINO with TensorFlow: %s of %s", ", ".join(left), task.folder)
        said, ended = _child(Task(task.folder, task.tags, left, task.session_config, task.hardware))
        verdicts |= said
        missing = next((name for name in left if name not in verdicts), None)
        if missing is not None:
            verdicts[missing] = Verdict(TENSORFLOW, f"the comparison {ended}", lasts=ended in _FAULTS)
    return verdicts


def _child(task: Task) -> tuple[dict[str, Verdict], str]:
    try:
        output, ended = run(
            [sys.executable, "-P", "-m", "lightbox.model_runtime.engines.openvino.canary", json.dumps(asdict(task))]
        )
    except OSError as error:
        return {}, f"could not be started: {error.strerror}"
    results = {}
    for line in output.splitlines():
        if line.startswith(b'{"signature"'):
            item = json.loads(line)
            name = item.pop("signature")
            results[name] = Verdict(**item)
    return results, ended


# ------------------------------------------------------------------ in the child


def main(arguments: Sequence[str]) -> None:
    """Judge the signatures of a task; print a line of JSON for each."""
    given = json.loads(arguments[0])
    task = Task(**given | {"hardware": Hardware(**given["hardware"])})
    meta_graph = read_meta_graph(task.folder, task.tags)
    reference = _tensorflow(task) if task.hardware.precision == PRECISIONS[0] else None
    for name in task.signatures:
        verdict = _judge(task, meta_graph, name, reference)
        print(json.dumps({"signature": name} | asdict(verdict)), flush=True)


def _tensorflow(task: Task) -> Runner | None:
    """Return TensorFlow's session, None if it is not installed."""
    try:
        from lightbox.model_runtime.engines.tensorflow.session import TensorFlowSession

        return TensorFlowSession(task.folder, task.tags, bytes.fromhex(task.session_config))
    except ImportError:
        return None


def _judge(task: Task, meta_graph: meta_graph_pb2.MetaGraphDef, name: str, reference: Runner | None) -> Verdict:
    try:
        return _compared(task, meta_graph, name, reference)
    except StatusError as error:  # only a guard's reason lies in the model for sure, and not in memory or other files
        return Verdict(TENSORFLOW, error.message, lasts=error.message in REASONS.values())


def _compared(task: Task, meta_graph: meta_graph_pb2.MetaGraphDef, name: str, reference: Runner | None) -> Verdict:
    """Return a verdict; raise StatusError if OpenVINO refuses the signature."""
    compiled = Compiled(task.folder, meta_graph, name, task.hardware)
    fetches = [info.name for info in compiled.signature.outputs.values()]
    if reference is None:
        for feeds in samples.batches(compiled.signature, 1):
            compiled.run(feeds, fetches)
        if task.hardware.precision != PRECISIONS[0]:  # the caller's own choice
            return Verdict(OPENVINO, task.hardware.precision, lasts=task.hardware.precision != INT8)
        return Verdict(OPENVINO, "not compared: TensorFlow is not installed", lasts=False)
    inputs = list(_inputs(compiled.signature, reference, fetches, name, task.folder))
    if not inputs:
        return Verdict(TENSORFLOW, "TensorFlow refuses all made-up inputs")
    if why := next(filter(None, (_apart(compiled, reference, feeds, fetches) for feeds in inputs)), None):
        return Verdict(TENSORFLOW, why)
    ours, theirs = (partial(runner.run, inputs[0], fetches) for runner in (compiled, reference))
    return _faster(ours, theirs, f"OpenVINO matches TensorFlow on {len(inputs)} test inputs")


def _apart(compiled: Compiled, reference: Runner, feeds: Mapping[str, Array], fetches: Sequence[str]) -> str | None:
    """Return how OpenVINO's result for one input differs from TensorFlow's, None if it does not.

    Raises StatusError if OpenVINO has none.
    """
    got = compiled.run(feeds, fetches)
    try:
        expected = reference.run(feeds, fetches)
    except StatusError as error:
        return f"it accepts an input that TensorFlow refuses: {error.message}"
    return difference(dict(zip(compiled.signature.outputs, zip(expected, got, strict=True), strict=True)))


def _inputs(
    signature: meta_graph_pb2.SignatureDef, reference: Runner, fetches: Sequence[str], name: str, folder: str
) -> Iterator[dict[str, Array]]:
    """Yield the inputs to compare: made-up ones that TensorFlow accepts, and those of the warm-up records."""
    for side in samples.sides(signature):
        made = [feeds for count in samples.BATCHES for feeds in samples.batches(signature, count, side)]
        if any(_succeeds(reference, feeds, fetches) for feeds in made):
            yield from made
            break
    yield from (feeds for feeds in _recorded(signature, name, folder) if _succeeds(reference, feeds, fetches))


def _succeeds(reference: Runner, feeds: Mapping[str, Array], fetches: Sequence[str]) -> bool:
    try:
        reference.run(feeds, fetches)
    except StatusError:
        return False
    return True


def _recorded(signature: meta_graph_pb2.SignatureDef, name: str, folder: str) -> Iterator[dict[str, Array]]:
    """Yield the inputs of the model's warm-up records; the load refuses damaged ones."""
    path = Path(folder) / WARM_UP_FILE
    if not path.is_file():
        return
    try:
        for record in records(path):
            entry = prediction_log_pb2.PredictionLog.FromString(record)
            request = entry.predict_log.request
            is_predict = entry.WhichOneof("log_type") == "predict_log"
            if is_predict and (request.model_spec.signature_name or DEFAULT_SIGNATURE) == name:
                if set(request.inputs) != set(signature.inputs):
                    return
                yield {
                    info.name: tensor_proto.decode(request.inputs[alias]) for alias, info in signature.inputs.items()
                }
    except (StatusError, ValueError):
        return


def _faster(openvino: Callable[[], object], tensorflow: Callable[[], object], matches: str) -> Verdict:
    """Compare the lowest CPU times of alternating calls: other load can only add to them."""
    times: dict[str, list[float]] = {OPENVINO: [], TENSORFLOW: []}
    end = time.monotonic() + _LONGEST_SECONDS
    for _ in range(_ROUNDS):
        for engine, call in ((OPENVINO, openvino), (TENSORFLOW, tensorflow)):
            start = time.process_time()
            call()
            times[engine].append(time.process_time() - start)
        if time.monotonic() > end:
            break
    ours, theirs = min(times[OPENVINO]), min(times[TENSORFLOW])
    figures = f"{ours * 1e3:.3g} against {theirs * 1e3:.3g} ms of CPU per input"
    if theirs - ours >= max(GAIN_SECONDS, GAIN * theirs):
        return Verdict(OPENVINO, f"{matches}: {figures}", is_equal=True)
    least = f"{GAIN:.0%}" if GAIN * theirs > GAIN_SECONDS else f"{GAIN_SECONDS * 1e3:.3g} ms"
    return Verdict(TENSORFLOW, f"{matches} but saves less than {least}: {figures}", is_equal=True)


if __name__ == "__main__":
    main(sys.argv[1:])
