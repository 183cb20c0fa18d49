"""A start chooses TensorFlow's threads per operation, logs the number, and passes it to the model server."""

from __future__ import annotations

import re

from lightbox.model_runtime.cores import available_cores
from support.stack import Stack

FLAG = "--tensorflow_intra_op_parallelism="


def test_the_log_and_the_model_server_s_command_line_agree(stack: Stack) -> None:
    reply = re.findall(r"TensorFlow intra-op threads: (\d+) \(([^()]+)\)", stack.log)
    assert len(reply) == 1
    count, why = reply[0]
    commands = [process.cmdline() for process in stack.processes("-m lightbox.model_runtime.server")]
    flags = [argument for command in commands for argument in command if argument.startswith(FLAG)]
    if available_cores() == 2:
        longest = "efficientnet_lite0 is small: 385 million multiplications per call, the limit is 400 million"
        assert (count, why) == ("1", longest)
    assert flags == ([f"{FLAG}1"] if count == "1" else [])
