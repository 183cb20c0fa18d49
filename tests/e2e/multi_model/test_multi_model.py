"""SageMaker's multi-model API through the whole stack: load, list, invoke, unload, and forbidden cases."""

from __future__ import annotations

import http.client
import itertools
import json
import shutil
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import requests

from support.compressed_index import compress_index
from support.fakes import png
from support.held import MANY_HELD, Door, export_held_image
from support.loading import IMAGE, invoke, load, unload
from support.models import copy_golden, export_constant
from support.parameters import few_of
from support.patience import PATIENCE, poll
from support.stack import Stack, running

GRAPH_WITHOUT_SIGNATURE = b"\x12\x09\x0a\x07\x22\x05serve"


@pytest.fixture(scope="module")
def root(module_door: Door, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a models directory with SageMaker's layout."""
    root = tmp_path_factory.mktemp("models")
    for name, value in (("one", 1.0), ("two", 2.0)):
        export_constant(root / name / "model", 1, value)
    (root / "a").mkdir()
    (root / "a-b").symlink_to(root / "one")
    (root / "a" / "b").symlink_to(root / "two")
    export_held_image(root / "held", module_door)
    copy_golden("half_plus_two", root / "half")
    for name in ("compressed", "compressed_part"):
        copy_golden("half_plus_two", root / name)
        for version in ("1", "2"):
            compress_index(root / name / version)
    (root / "compressed_part" / "1" / "variables" / "variables.data-00000-of-00001").write_bytes(b"")
    (root / "broken" / "1").mkdir(parents=True)
    (root / "broken" / "1" / "saved_model.pb").write_bytes(b"garbage" * 10)
    (root / "silent" / "1").mkdir(parents=True)
    (root / "silent" / "1" / "saved_model.pb").write_bytes(GRAPH_WITHOUT_SIGNATURE)
    export_constant(root / "half_copied", 1, 1.0)
    (root / "half_copied" / "2").mkdir()
    export_constant(root / "misfit", 1, 1.0)
    (root / "misfit" / "code").mkdir()
    (root / "misfit" / "code" / "lightbox.json").write_text('{"outputs": ["median"]}')
    (root / "empty").mkdir()
    outside = tmp_path_factory.mktemp("outside")
    export_constant(outside / "secret", 1, 9.0)
    (root / "link").symlink_to(outside / "secret")
    (root / "inner").mkdir()
    (root / "inner" / "1").symlink_to(outside / "secret" / "1")
    return root


@pytest.fixture(scope="module")
def multi_model_stack(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    environ = {"SAGEMAKER_MULTI_MODEL": "true", "LIGHTBOX_MAX_MODELS": "4", "LIGHTBOX_TRANSPORT": "grpc,rest"}
    environ["SAGEMAKER_GUNICORN_THREADS"] = "16"  # half of them may load
    with running(root, tmp_path_factory.mktemp("run"), **environ, **MANY_HELD) as multi_model_stack:
        yield multi_model_stack


@pytest.fixture(autouse=True)
def nothing_loaded(multi_model_stack: Stack) -> Iterator[None]:
    yield
    for entry in requests.get(f"{multi_model_stack.url}/models", timeout=PATIENCE).json()["models"]:
        requests.delete(f"{multi_model_stack.url}/models/{entry['modelName']}", timeout=PATIENCE)


@pytest.mark.parametrize("wire", few_of(["grpc", "rest"], "grpc"))
def test_a_model_comes_serves_and_goes(multi_model_stack: Stack, root: Path, wire: str) -> None:
    url = str(root / "one" / "model")
    assert invoke(multi_model_stack, "one", wire=wire).status_code == 404
    loaded = load(multi_model_stack, "one", url)
    entry = {"modelName": "one", "modelUrl": url}
    assert (loaded.status_code, loaded.json()) == (200, entry | {"success": "Successfully loaded model one."})
    assert invoke(multi_model_stack, "one", wire=wire).json() == {"predictions": [1.0]}
    assert requests.get(f"{multi_model_stack.url}/models", timeout=PATIENCE).json() == {"models": [entry]}
    version = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    reply = requests.get(f"{multi_model_stack.url}/models/one", timeout=PATIENCE).json()
    assert reply == entry | {"model": {"model_version_status": [version]}}
    assert unload(multi_model_stack, "one").status_code == 200
    assert invoke(multi_model_stack, "one", wire=wire).status_code == 404
    assert unload(multi_model_stack, "one").status_code == 404
    assert requests.get(f"{multi_model_stack.url}/models/one", timeout=PATIENCE).status_code == 404
    assert requests.get(f"{multi_model_stack.url}/models", timeout=PATIENCE).json() == {"models": []}


def test_every_worker_knows_at_once(multi_model_stack: Stack, root: Path) -> None:
    assert load(multi_model_stack, "two", root / "two").status_code == 200
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: invoke(multi_model_stack, "two"), range(40)))
    assert {answer.text for answer in answers} == {'{"predictions":[2.0]}'}


def test_a_second_load_is_refused_and_harms_nothing(multi_model_stack: Stack, root: Path) -> None:
    assert load(multi_model_stack, "one", root / "one").status_code == 200
    again = load(multi_model_stack, "one", root / "two")
    assert (again.status_code, again.json()["code"]) == (409, "already_loaded")
    assert invoke(multi_model_stack, "one").json() == {"predictions": [1.0]}


@pytest.mark.parametrize(
    ("name", "folder", "status"),
    [
        ("a", "nowhere", 404),
        ("a", "empty", 404),
        ("a", "broken", 400),
        ("a", "inner", 400),
        ("a", ".", 400),
        ("a/b", "one", 400),
        ("x" * 256, "one", 400),
    ],
)
def test_a_failed_load_leaves_nothing_behind(
    multi_model_stack: Stack, root: Path, name: str, folder: str, status: int
) -> None:
    answer = load(multi_model_stack, name, folder if folder.startswith("/") else root / folder)
    assert answer.status_code == status, answer.text
    assert answer.json().keys() == {"error", "code", "request_id"}
    assert requests.get(f"{multi_model_stack.url}/models", timeout=PATIENCE).json() == {"models": []}
    assert load(multi_model_stack, "good", root / "one").status_code == 200
    assert invoke(multi_model_stack, "good").status_code == 200


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("broken", "{url}/1/saved_model.pb is not a SavedModel, or is damaged: "),
        ("silent", "{url}/1/saved_model.pb has no usable signature: "),
        ("half_copied", "{url}/2 holds no saved_model.pb"),
        ("misfit", "{url}/code/lightbox.json: outputs: the model 'a' gives value; got median"),
    ],
)
def test_what_would_stop_a_start_is_refused_in_the_same_words(
    multi_model_stack: Stack, root: Path, folder: str, said: str
) -> None:
    for url in (str(root / folder), folder):
        answer = load(multi_model_stack, "a", url)
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
        shown = url.replace(str(root), "LIGHTBOX_MODEL_DIR")
        assert answer.json()["error"].startswith("url: " + said.format(url=shown))


def test_a_model_with_a_compressed_index_is_the_model_servers_to_judge(multi_model_stack: Stack, root: Path) -> None:
    assert load(multi_model_stack, "a", root / "compressed").status_code == 200
    answer = requests.post(f"{multi_model_stack.url}/models/a/invoke", json={"instances": [1.0, 2.0]}, timeout=PATIENCE)
    assert answer.json() == {"predictions": [3.5, 4.0]}
    part = load(multi_model_stack, "b", "compressed_part")
    assert (part.status_code, part.json()["code"]) == (400, "bad_request")
    said = "url: the model cannot be loaded: version 1 ended with OUT_OF_RANGE: "
    assert part.json()["error"] == f"{said}compressed_part/1/variables: Read less bytes than requested"


@pytest.mark.parametrize(
    ("packed", "status", "said"),
    [
        ("silent", 400, "TargetModel: {target}/1/saved_model.pb has no usable signature: "),
        ("empty", 404, "TargetModel: no model was found in '{target}'"),
    ],
)
def test_a_target_that_cannot_be_served_is_reported_without_where_it_was_unpacked(
    multi_model_stack: Stack, root: Path, packed: str, status: int, said: str
) -> None:
    target = f"{packed}.tar.gz"
    with tarfile.open(root / target, "w:gz") as archive:
        archive.add(root / packed, ".")
    client = multi_model_stack.boto3()
    with pytest.raises(client.exceptions.ModelError) as refused:
        client.invoke_endpoint(EndpointName="any", TargetModel=target, Body=IMAGE)
    assert refused.value.response["OriginalStatusCode"] == status
    message = json.loads(refused.value.response["OriginalMessage"])["error"]
    assert message.startswith(said.format(target=target))


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"model_name": "a"}', b'{"model_name": 1, "url": 2}'])
def test_a_malformed_load(multi_model_stack: Stack, body: bytes) -> None:
    assert requests.post(f"{multi_model_stack.url}/models", data=body, timeout=PATIENCE).status_code == 400


OUT = "../{outside}/secret"
"""From the models directory to a model that could be loaded."""


@pytest.mark.parametrize(
    ("url", "status"),
    [
        (OUT, 400),
        ("one/../" + OUT, 400),
        ("./one/./../" + OUT, 400),
        ("file://" + OUT, 400),
        ("{root}/" + OUT, 400),
        ("/proc/self/root{root}/" + OUT, 400),
        ("../" * 500 + "etc", 400),
        ("link", 400),
        ("link/1/..", 400),
        ("..", 400),
        ("one\0" + OUT, 400),
        ("a" * 5000, 400),
        (OUT.replace("/", "%2f"), 404),
        (OUT.replace(".", "%2e"), 404),
        (OUT.replace("/", "\\"), 404),
        ("~root", 404),
        ("file://localhost/etc", 404),
        ("s3://bucket/key", 404),
        ("http://127.0.0.1/model", 404),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_no_spelling_of_a_path_leads_out_of_the_models_directory(
    multi_model_stack: Stack, root: Path, url: str, status: int
) -> None:
    url = url.format(outside=next(root.parent.glob("outside*")).name, root=root)
    reply = load(multi_model_stack, "a", url)
    assert reply.status_code == status, reply.text
    assert reply.json()["code"] == ("bad_request" if status == 400 else "model_not_found")
    assert reply.json()["error"].startswith("url: ")
    if "\0" not in url:  # a header cannot contain a zero byte
        target = {"X_Amzn_SageMaker_Target_Model": url}
        assert multi_model_stack.invoke(IMAGE, **target).status_code == 404
        assert multi_model_stack.invoke(IMAGE, "/endpoints/any/invocations", **target).status_code == 424
    assert requests.get(f"{multi_model_stack.url}/models", timeout=PATIENCE).json() == {"models": []}


@pytest.mark.parametrize("field", ["model_name", "url"])
def test_what_is_nested_deep_is_no_name_and_no_path(multi_model_stack: Stack, field: str) -> None:
    for depth in (500, 1000, 1020, 30_000):  # 1024 levels can be parsed, Python can write fewer
        body = b'{"model_name":"a","url":"one","%b":%b}' % (field.encode(), b"[" * depth + b"]" * depth)
        reply = requests.post(f"{multi_model_stack.url}/models", body, timeout=PATIENCE)
        assert (reply.status_code, reply.json()["error"].partition(":")[0]) == (
            400,
            field if depth < 1024 else "the body",
        )


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../one",
        "%2e%2e%2fone",
        "one/1",
        "one\\1",
        "one\0",
        "/etc",
        "~",
        "one two",
        "",
        None,
        7,
        ["one"],
        {"a": "b"},
    ],
)
def test_a_name_that_could_be_a_path_is_refused(multi_model_stack: Stack, name: object) -> None:
    reply = load(multi_model_stack, name, "one")
    assert (reply.status_code, reply.json()["code"]) == (400, "bad_request")
    assert reply.json()["error"].startswith("model_name: expected a name of letters, digits")
    assert reply.json()["error"].endswith("got none") == (name is None)


WAYS_UP = {
    "/models/../models/one/invoke": 404,
    "/models/%2e%2e/models/one/invoke": 404,
    "/models/..%2fmodels/one/invoke": 404,
    "/models/%2e%2e%2fone/invoke": 404,
    "/models/%252e%252e%252fone/invoke": 404,
    "/models/one%2f..%2fone/invoke": 404,
    "/models/one%2f1/invoke": 404,
    "/models/..%5cone/invoke": 404,
    "/models/one;x/invoke": 404,
    "/models/one/../../internal/probe": 404,
    "/models/..%2f..%2fetc%2fpasswd/invoke": 400,
    "/models/one%00/invoke": 400,
    "/models//one/invoke": 404,
    "/v2/models/..%2fone/infer": 404,
    "/v2/repository/models/..%2fone/load": 404,
    "/v2/repository/models/%2e%2e/load": 400,
    "/v2/repository/models/one%2f..%2f..%2fetc/unload": 404,
}


def test_a_path_with_a_way_up_reaches_no_model(multi_model_stack: Stack, root: Path) -> None:
    assert load(multi_model_stack, "one", root / "one").status_code == 200
    for (path, status), method in itertools.product(WAYS_UP.items(), ("POST", "DELETE")):
        connection = http.client.HTTPConnection("127.0.0.1", multi_model_stack.port, timeout=PATIENCE)
        try:
            connection.request(method, path, IMAGE, {"Content-Type": "image/png"})
            reply = connection.getresponse()
            assert reply.status == status or (method, reply.status) == ("DELETE", 405), path
            assert json.loads(reply.read()).keys() == {"error", "code", "request_id"}
        finally:
            connection.close()
    assert invoke(multi_model_stack, "one").json() == {"predictions": [1.0]}


@pytest.mark.extended
def test_no_room(multi_model_stack: Stack, root: Path) -> None:
    for index in range(4):
        assert load(multi_model_stack, f"copy{index}", root / "one").status_code == 200
    answer = load(multi_model_stack, "copy4", root / "one")
    assert (answer.status_code, answer.json()["code"]) == (507, "no_room")
    assert "LIGHTBOX_MAX_MODELS" in answer.json()["error"]
    assert invoke(multi_model_stack, "copy3").status_code == 200


def test_changed_files_are_used_after_unload_and_load(multi_model_stack: Stack, root: Path) -> None:
    shutil.rmtree(root / "changing", ignore_errors=True)
    export_constant(root / "changing", 1, 5.0)
    assert load(multi_model_stack, "changing", root / "changing").status_code == 200
    assert invoke(multi_model_stack, "changing").json() == {"predictions": [5.0]}
    assert unload(multi_model_stack, "changing").status_code == 200
    shutil.rmtree(root / "changing" / "1")
    export_constant(root / "changing", 1, 6.0, side=4)
    assert load(multi_model_stack, "changing", root / "changing").status_code == 200
    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(lambda _: invoke(multi_model_stack, "changing").text, range(16)))
    assert answers == {'{"predictions":[6.0]}'}


def test_an_unload_under_load_finishes_what_runs(multi_model_stack: Stack, root: Path, door: Door) -> None:
    assert load(multi_model_stack, "held", root / "held").status_code == 200
    assert invoke(multi_model_stack, "held").status_code == 200
    with ThreadPoolExecutor(2) as pool:
        running_one = pool.submit(invoke, multi_model_stack, "held", png(np.full((8, 8, 3), (40, 0, 0))))
        door.wait_for()
        unloading = pool.submit(unload, multi_model_stack, "held")
        assert any(invoke(multi_model_stack, "held").status_code == 404 for _ in poll())  # the unload began
        assert not unloading.done()
        assert not running_one.done()
        door.open()
        assert unloading.result().status_code == 200
        assert running_one.result().status_code == 200, running_one.result().text
    assert invoke(multi_model_stack, "held").status_code == 404


def test_plain_invocations_need_a_target(multi_model_stack: Stack, root: Path) -> None:
    assert load(multi_model_stack, "one", root / "one").status_code == 200
    assert multi_model_stack.invoke(IMAGE).status_code == 400
    named = {"X_Amzn_SageMaker_Target_Model": "one"}
    assert multi_model_stack.invoke(IMAGE, **named).json() == {"predictions": [1.0]}
    for target in ("two", "/two.tar.gz"):
        refused = multi_model_stack.invoke(IMAGE, X_Amzn_SageMaker_Target_Model=target)
        assert refused.status_code == 404
        assert refused.json()["error"].startswith(f"Model {target} is not loaded yet. ")
        assert "POST /endpoints/<any name>/invocations loads its TargetModel on first use" in refused.json()["error"]


def test_boto3_loads_its_target_on_first_use(multi_model_stack: Stack, root: Path) -> None:
    answer = multi_model_stack.boto3().invoke_endpoint(
        EndpointName="any", TargetModel="two", Body=IMAGE, ContentType="image/png"
    )
    assert answer["Body"].read() == b'{"predictions":[2.0]}'
    with tarfile.open(root / "packed.tar.gz", "w:gz") as archive:
        archive.add(root / "one" / "model" / "1", "1")
    for _ in range(2):
        answer = multi_model_stack.boto3().invoke_endpoint(
            EndpointName="any", TargetModel="packed.tar.gz", Body=IMAGE, ContentType="image/png"
        )
        assert answer["Body"].read() == b'{"predictions":[1.0]}'
    client = multi_model_stack.boto3()
    for target, prediction in (("a-b", 1.0), ("a/b", 2.0)):
        answer = client.invoke_endpoint(EndpointName="any", TargetModel=target, Body=IMAGE, ContentType="image/png")
        assert answer["Body"].read() == json.dumps({"predictions": [prediction]}, separators=(",", ":")).encode()
    for target in ("nowhere", "../outside", "broken"):
        with pytest.raises(client.exceptions.ModelError):
            client.invoke_endpoint(EndpointName="any", TargetModel=target, Body=IMAGE)


def test_bare_saved_models_and_other_layouts(multi_model_stack: Stack, root: Path) -> None:
    assert load(multi_model_stack, "bare", root / "one" / "model" / "1").status_code == 200
    assert invoke(multi_model_stack, "bare").json() == {"predictions": [1.0]}


@pytest.mark.extended
def test_each_model_has_its_own_code(multi_model_stack: Stack, root: Path) -> None:
    for name, word in (("hello", "one"), ("world", "two")):
        shutil.rmtree(root / name, ignore_errors=True)
        export_constant(root / name, 1, 1.0)
        (root / name / "code").mkdir()
        (root / name / "code" / "inference.py").write_text(
            f"def postprocess(outputs, request):\n    return {{'word': {word!r}}}\n"
        )
        assert load(multi_model_stack, name, root / name).status_code == 200
    assert invoke(multi_model_stack, "hello").json() == {"word": "one"}
    assert invoke(multi_model_stack, "world").json() == {"word": "two"}
    (root / "world" / "code" / "inference.py").write_text("def postprocess(outputs, request:\n")
    assert unload(multi_model_stack, "world").status_code == 200
    broken = load(multi_model_stack, "world", root / "world")
    assert broken.status_code == 400
    assert "inference.py" in broken.json()["error"]
    assert invoke(multi_model_stack, "world").status_code == 404


@pytest.mark.extended
def test_code_beside_the_models_serves_those_without_their_own_over_rest_alone(tmp_path: Path) -> None:
    shared = tmp_path / "models"
    export_constant(shared / "plain", 1, 3.0)
    (shared / "code").mkdir()
    (shared / "code" / "inference.py").write_text("def postprocess(outputs, request):\n    return {'by': 'all'}\n")
    environ = {"SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_TFS_INSTANCE_COUNT": "2", "LIGHTBOX_TRANSPORT": "rest"}
    with running(shared, tmp_path / "run", **environ) as rest_stack:
        assert load(rest_stack, "plain", "plain").status_code == 200
        assert [invoke(rest_stack, "plain", wire="rest").json() for _ in range(4)] == [{"by": "all"}] * 4
        assert unload(rest_stack, "plain").status_code == 200
        assert invoke(rest_stack, "plain", wire="rest").status_code == 404
