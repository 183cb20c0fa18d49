"""The commands of the pages: parameters that the templates take, and calls that botocore knows."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import botocore.session
from botocore.validate import validate_parameters

from support.deployment import GIVEN, IMAGE, ROLE, Evaluation
from support.parameters import each
from support.stack import REPOSITORY

PAGES = [page for page in (REPOSITORY / "docs").glob("*.md") if "lightbox deploy" in page.read_text()]
VALUES = {
    "$role": ROLE,
    "$registry/lightbox:1": IMAGE,
    "$image": IMAGE,
    "$aws_image": IMAGE,
    "$model": "s3://BUCKET/models/7/model.tar.gz",
}


def commands(program: str) -> Iterator[list[str]]:
    """Yield the words of each command of a program in the pages."""
    text = "\n".join(block for page in PAGES for block in re.findall(r"```bash\n(.*?)```", page.read_text(), re.DOTALL))
    for name, value in VALUES.items():
        text = text.replace(name, value)
    words = [*shlex.split(re.sub(r"\n(?! )", " ; ", text.replace("\\\n", " "))), ";"]
    for start in (number for number, word in enumerate(words) if word == program):
        end = next(number for number in range(start, len(words)) if words[number] in {";", "|"})
        yield words[start + 1 : end]


def parameters(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words if re.match(r"[A-Z]\w*=", word) and "_" not in word.split("=")[0])


@each(
    "words", [words for words in commands("lightbox") if words[:1] == ["deploy"] and words[1] in {"create", "update"}]
)
def test_the_templates_take_the_parameters(words: list[str]) -> None:
    name = "component" if "shared-digits" in words else "endpoint"
    previous = GIVEN | ({"Endpoint": "shared"} if name == "component" else {})
    evaluation = Evaluation(name, (previous if words[1] == "update" else {}) | parameters(words))
    assert evaluation.objections() == []
    assert evaluation.requests()
    if name == "component":
        assert words.count("--env") <= 16, "variables that a component takes"


def test_cloudformation_alone_takes_them_as_well() -> None:
    (words,) = [words for words in commands("aws") if words[0] == "cloudformation"]
    template = words[words.index("--template-file") + 1]
    assert (REPOSITORY / template).exists()
    assert Evaluation("endpoint", parameters(words)).objections() == []


@each("words", [words for words in commands("aws") if words[0].startswith("sagemaker")])
def test_botocore_knows_the_calls(words: list[str]) -> None:
    service, call, *options = words
    model = botocore.session.get_session().get_service_model(service)
    shape = model.operation_model("".join(part.title() for part in call.split("-"))).input_shape
    fields = {name.lower(): name for name in shape.members}
    request: dict[str, Any] = {}
    for option, value in zip(options[::2], options[1::2], strict=True):
        if option != "--query":
            name = fields[option.removeprefix("--").replace("-", "")]
            request[name] = json.loads(value) if shape.members[name].type_name in {"structure", "integer"} else value
    validate_parameters(request, shape)
