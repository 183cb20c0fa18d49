"""A start chooses TensorFlow's threads per operation, logs the number, and passes it to the model server."""

from __future__ import annotations

import re

from lightbox.model_runtime.cores import available_cores
from support.stack import Stack

FLAG = "--tensorflow_intra_op_parallelism="


def test_the_log_and_the_model_server_s_command_line_agree(stack: Stack) -> None:
    (logged,) = re.findall(r"TensorFlow intra-op threads: ([^;]+);", stack.log)
    commands = [process.cmdline() for process in stack.processes("-m lightbox.model_runtime.server")]
    flags = [argument for command in commands for argument in command if argument.startswith(FLAG)]
    expected = ("1", [f"{FLAG}1"]) if available_cores() <= 2 else ("chosen by the model server", [])
    assert (logged, flags) == expected
