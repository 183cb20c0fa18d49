"""The endpoint tests of AWS's own container, run against Lightbox with the same models, archives and variables.

AWS's model maps float32 ``[-1, -1]`` to its product with a factor. Its archive has ``1/`` at the top.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests
from botocore.exceptions import ClientError

from support.models import export_times
from support.patience import PATIENCE
from support.stack import Stack, running

pytestmark = pytest.mark.extended

JSON, CSV = "application/json", "text/csv"
ROWS = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
BATCHING = {
    "SAGEMAKER_TFS_ENABLE_BATCHING": "true",
    "SAGEMAKER_TFS_MAX_BATCH_SIZE": "16",
    "SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS": "2000",
    "SAGEMAKER_TFS_NUM_BATCH_THREADS": "2",
    "SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES": "64",
}
PREPENDS = """
from gevent import monkey
monkey.patch_all()

import json

def input_handler(data, context):
    rows = json.loads(data.read())["instances"]
    return json.dumps({"instances": [[100.0] * len(rows[0])] + rows})

def output_handler(response, context):
    if response.status_code != 200:
        raise ValueError(response.content.decode("utf-8"))
    answer = json.loads(response.content)
    answer["handled"] = True
    return json.dumps(answer), context.accept_header
"""
PASSES_ON = """
def input_handler(data, context):
    return data.read()

def output_handler(response, context):
    return response.content, context.accept_header
"""
MEETS = """
import time
from pathlib import Path

ALL_HERE = Path(__file__).parent / "here"

def handler(data, context):
    (ALL_HERE / data.read().decode()).touch()
    while len(list(ALL_HERE.iterdir())) < 2:
        time.sleep(0.05)
    return "together", "text/plain"
"""


def write_code(model: Path, source: str) -> None:
    (model / "code").mkdir()
    (model / "code" / "inference.py").write_text(source)


def pack(folder: Path, archive: Path) -> None:
    with tarfile.open(archive, "w:gz") as opened:
        for entry in sorted(folder.iterdir()):
            opened.add(entry, entry.name)


def ask(client: Any, body: bytes | str, content_type: str = JSON, **more: str) -> Any:
    """Return the response's JSON."""
    answer = client.invoke_endpoint(EndpointName="any", Body=body, ContentType=content_type, Accept=JSON, **more)
    assert answer["ContentType"] == JSON
    return json.loads(answer["Body"].read())


def instances(rows: object) -> str:
    return json.dumps({"instances": rows})


def times(factor: float, rows: list[list[float]] = ROWS) -> dict[str, object]:
    return {"predictions": [[value * factor for value in row] for row in rows]}


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Run an archive with two versions at its top, two model servers with a GPU each, batching, a transform job."""
    folder = tmp_path_factory.mktemp("single")
    export_times(folder / "archive", 1, 2.0)
    export_times(folder / "archive", 2, 3.0)
    pack(folder / "archive", folder / "model.tar.gz")
    with tarfile.open(folder / "model.tar.gz") as archive:
        archive.extractall(folder / "models", filter="data")
    several = {"SAGEMAKER_TFS_INSTANCE_COUNT": "3", "CUDA_VISIBLE_DEVICES": "3,5", "SAGEMAKER_BATCH": "True"}
    with running(folder / "models", folder / "run", **BATCHING, **several) as stack:
        yield stack


@pytest.fixture(scope="module")
def client(single: Stack) -> Iterator[Any]:
    with closing(single.boto3()) as runtime:
        yield runtime


@pytest.mark.parametrize(("version", "factor"), [("", 3.0), ("tfs-model-version=1", 2.0), ("tfs-model-version=2", 3.0)])
def test_json_for_both_versions_of_one_archive(client: Any, version: str, factor: float) -> None:
    more = {"CustomAttributes": version} if version else {}
    assert ask(client, instances([[1, 2, 3]]), **more) == times(factor, [[1, 2, 3]])


def test_csv_of_two_rows(client: Any) -> None:
    assert ask(client, "1.0,2.0,3.0\n4.0,5.0,6.0\n", CSV) == times(3.0)


def test_batching_with_all_its_variables_gives_each_request_its_own_rows(client: Any) -> None:
    def one(number: int) -> object:
        return ask(client, instances([[number, number + 0.5]]))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(32)))
    assert answers == [times(3.0, [[number, number + 0.5]]) for number in range(32)]


def test_a_transform_of_three_files_gives_three_outputs(single: Stack, tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.json" for number in range(3)]
    for number, file in enumerate(files):
        file.write_text(instances([[number, 1.0]]))
    wanted = requests.get(f"{single.url}/execution-parameters", timeout=PATIENCE).json()

    def transform(file: Path) -> None:
        answer = single.invoke(file.read_bytes(), Content_Type=JSON, Accept=JSON)
        assert answer.status_code == 200, answer.text
        file.with_suffix(".json.out").write_bytes(answer.content)

    with ThreadPoolExecutor(wanted["MaxConcurrentTransforms"]) as pool:
        list(pool.map(transform, files))
    outputs = [json.loads(path.read_bytes()) for path in sorted(tmp_path.glob("*.out"))]
    assert outputs == [times(3.0, [[number, 1.0]]) for number in range(3)]


def test_each_model_server_has_a_gpu_of_the_list_in_turn(single: Stack) -> None:
    given = [
        process.environ()["CUDA_VISIBLE_DEVICES"] for process in single.processes("-m lightbox.model_runtime.server")
    ]
    assert sorted(given) == ["3", "3", "5"]
    assert "[lightbox] GPUs: 3, 5; the model servers take them in turn, one each" in single.log


@pytest.fixture(scope="module")
def paired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Run models with their own handlers and one without, AWS's worker class and log levels, 2 workers, 4 threads.

    Of several models each leaves others half of a worker's threads, and any worker may get both requests of a test.
    """
    folder = tmp_path_factory.mktemp("paired")
    for name, source in (("prepends", PREPENDS), ("passes_on", PASSES_ON), ("meets", MEETS)):
        export_times(folder / "models" / name, 1, 2.0)
        write_code(folder / "models" / name, source)
    (folder / "models" / "meets" / "code" / "here").mkdir()
    export_times(folder / "models" / "only_lib", 1, 2.0)
    (folder / "models" / "only_lib" / "code" / "lib").mkdir(parents=True)
    environ = {
        "SAGEMAKER_GUNICORN_LOGLEVEL": "warning",
        "SAGEMAKER_TFS_NGINX_LOGLEVEL": "warn",
        "SAGEMAKER_GUNICORN_WORKERS": "2",
        "SAGEMAKER_GUNICORN_THREADS": "4",
        "SAGEMAKER_GUNICORN_WORKER_CLASS": "gevent",
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "prepends",
    }
    with running(folder / "models", folder / "run", **environ) as stack:
        yield stack


@pytest.fixture(scope="module")
def paired_client(paired: Stack) -> Iterator[Any]:
    with closing(paired.boto3()) as runtime:
        yield runtime


def test_what_both_halves_of_a_pair_do_is_seen(paired: Stack, paired_client: Any) -> None:
    expected = times(2.0, [[100.0] * 3, *ROWS]) | {"handled": True}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ask(paired_client, instances(ROWS)), range(16)))
    assert answers == [expected] * 16
    assert "SAGEMAKER_GUNICORN_WORKER_CLASS=gevent: workers with threads take its place" in paired.log


def test_handlers_hold_up_no_other(paired: Stack) -> None:
    """No request is answered before both are in progress, in any worker."""

    def meet(number: int) -> str:
        attributes = "tfs-model-name=meets"
        return paired.invoke(str(number).encode(), X_Amzn_SageMaker_Custom_Attributes=attributes).text

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(meet, range(2))) == ["together"] * 2


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ('{"instances": [[1, 2', JSON),
        ("", JSON),
        ("anything", "application/unknown"),
        ('{"instances": [[1], [1, 2]]}', JSON),
        ('{"instances": [["a", "b"]]}', JSON),
    ],
)
def test_through_a_pair_that_passes_all_on_an_error_is_an_error(
    paired: Stack, paired_client: Any, body: str, content_type: str
) -> None:
    attributes = "tfs-model-name=passes_on"
    with pytest.raises(ClientError) as caught:
        ask(paired_client, body, content_type, CustomAttributes=attributes)
    assert 400 <= caught.value.response["OriginalStatusCode"] < 500
    assert caught.value.response["OriginalMessage"]
    plain = paired.invoke(body.encode(), Content_Type=content_type, X_Amzn_SageMaker_Custom_Attributes=attributes)
    assert 400 <= plain.status_code < 500
    assert "<html" not in plain.text.lower()
    assert ask(paired_client, instances(ROWS), CustomAttributes=attributes) == times(2.0)


def test_ping_may_be_posted(paired: Stack) -> None:
    assert requests.post(f"{paired.url}/ping", timeout=PATIENCE).status_code == 200


def test_code_without_a_handler_leaves_the_built_in_handling(paired_client: Any) -> None:
    assert ask(paired_client, "1,2,3\n4,5,6", CSV, CustomAttributes="tfs-model-name=only_lib") == times(2.0)
