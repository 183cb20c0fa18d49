"""A model server's RESOURCE_EXHAUSTED has two meanings: a full queue, or a model without memory."""

from __future__ import annotations

import grpc
import pytest

from lightbox.base.errors import ModelUninitialized
from lightbox.model_runtime.wire.status import Code
from lightbox.transports.base import from_server
from support.parameters import each

NO_MEMORY = "OOM when allocating tensor with shape[1,100000,100000,3] and type float on CPU by allocator cpu"


@pytest.mark.parametrize("wire_adds", ["", "\n\t [[{{node StatefulPartitionedCall/conv}}]]"])
def test_a_graph_without_memory_is_the_models_fault(wire_adds: str) -> None:
    error = from_server("RESOURCE_EXHAUSTED", NO_MEMORY + wire_adds, "net", 1)
    assert (error.code, error.status) == ("model_failed", 502)
    assert NO_MEMORY in error.message


def test_any_graph_node_that_has_run_out_is_the_models_fault() -> None:
    message = "Resource exhausted\n\t [[{{function_node __inference_1}}{{node queue}}]]"
    assert from_server("RESOURCE_EXHAUSTED", message, "net", None).code == "model_failed"


@pytest.mark.parametrize(
    "message",
    [
        "The batch scheduling queue to which this task was submitted is full; task_size = 1",
        "Server Threadpool Exhausted",
    ],
)
def test_a_full_queue_is_busy(message: str) -> None:
    error = from_server("RESOURCE_EXHAUSTED", message, "net", 1)
    assert (error.code, error.status) == ("unavailable", 503)


def test_a_connection_that_ends_is_no_fault_of_the_model() -> None:
    message = "Stream removed (Failed parsing HTTP/2 (Frame size 5438479 is larger than max frame size 4194304))"
    assert from_server("UNKNOWN", message, "net", 1).status == 503
    assert from_server("UNKNOWN", "the model raised", "net", 1).status == 502


NO_VARIABLE = "Could not find variable v. In TF1, it can also mean the variable is uninitialized."


@each("message", [NO_VARIABLE, "Attempting to use uninitialized value v", "Table not initialized."])
@each("code", ["FAILED_PRECONDITION", "INVALID_ARGUMENT"])
def test_what_a_model_lacks_is_distinguished_from_what_its_inputs_cause(code: str, message: str) -> None:
    error = from_server(code, f"{message}\n\t [[{{{{node y/ReadVariableOp}}}}]]", "net", 1)
    assert (type(error), error.code, error.status) == (ModelUninitialized, "model_failed", 502)


@pytest.mark.parametrize(
    "message",
    ["indices[0,0] = 7 is not in [0, 3)", "slice index 5 of dimension 0 out of bounds.", "Integer division by zero"],
)
def test_numbers_that_an_operation_does_not_take_are_the_callers(message: str) -> None:
    error = from_server("INVALID_ARGUMENT", f"{message}\n\t [[{{{{node y}}}}]]", "net", 1)
    assert (error.code, error.status) == ("input_mismatch", 400)


EXPECTED = {
    "INVALID_ARGUMENT": "bad_request",
    "NOT_FOUND": "model_not_found",
    "DEADLINE_EXCEEDED": "deadline_exceeded",
    "UNAVAILABLE": "unavailable",
    "CANCELLED": "unavailable",
    "RESOURCE_EXHAUSTED": "unavailable",
    # Statuses that a model server should not send, and statuses that only a failing graph causes.
    **dict.fromkeys(("UNKNOWN", "ALREADY_EXISTS", "PERMISSION_DENIED", "UNAUTHENTICATED"), "model_failed"),
    **dict.fromkeys(("FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED"), "model_failed"),
    **dict.fromkeys(("INTERNAL", "DATA_LOSS"), "model_failed"),
}


@each("status", [status for status in grpc.StatusCode if status is not grpc.StatusCode.OK])
def test_every_status_of_grpc_is_translated_on_purpose(status: grpc.StatusCode) -> None:
    assert from_server(status.name, "said so", "net", 1).code == EXPECTED[status.name]


def test_the_wires_know_the_same_statuses() -> None:
    assert {code.name for code in Code} - {"OK"} == EXPECTED.keys()
