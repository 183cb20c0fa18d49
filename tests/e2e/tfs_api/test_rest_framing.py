"""The model server behind a worker reads the requests that nginx has read (support/framing.py)."""

from __future__ import annotations

import re

import pytest

from support.framing import CLASSES, exchange, forms
from support.stack import Stack

READ = re.compile(rb"Malformed request: (\w+) (/v1/[^\"?]+)")
"""Its answer to a request for a path that is none of its own."""


@pytest.mark.extended
@pytest.mark.parametrize("kind", CLASSES)
def test_the_model_server_reads_what_nginx_has_read(golden_stack: Stack, kind: str) -> None:
    problems = []
    for form in forms(kind, "/v1"):
        answer = exchange(golden_stack, form.message())
        form.reads = [read.rpartition(" ")[0] for read in form.reads]
        taken = [b" ".join(found).decode() for found in READ.findall(answer)]
        problems.append(form.problem("nginx", taken, answer))
    assert not list(filter(None, problems))
