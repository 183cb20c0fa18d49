"""The server with OpenVINO: which engine answers, which verdicts are cached, and which requests are refused."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from lightbox.model_runtime.engines import disk_cache
from lightbox.model_runtime.engines.openvino.verdicts import OPENVINO, Key, Verdict, remember
from lightbox.model_runtime.engines.selection import CHOICES
from lightbox.model_runtime.engines.setting import IN_MODEL
from support.model_server import MODELS, ModelServer

pytestmark = pytest.mark.extended

CHOSEN = re.compile(r"signature (\w+): (\w+) \((.*)\)$", re.MULTILINE)
COMPARED = "comparing OpenVINO with TensorFlow"


def server(folder: Path, model: Path, *flags: str, engine: str = "auto", **options: Any) -> ModelServer:
    """Run a server with one model. ``model`` is its base path."""
    own = ["--model_name=m", f"--model_base_path={model}", f"--engine={engine}", "--max_num_load_retries=0"]
    return ModelServer(folder, *own, *flags, **options)


def chosen(running: ModelServer) -> dict[str, str]:
    return {name: engine for name, engine, _ in CHOSEN.findall(running.stderr)}


def has_tensorflow(running: ModelServer) -> bool:
    """Return whether the process has loaded TensorFlow's runtime."""
    return "libtensorflow_cc" in Path(f"/proc/{running.process.pid}/maps").read_text()


def copied(folder: Path, name: str = "half_plus_two/1") -> Path:
    """Return the base path of a copy of a recorded model, as version 1."""
    shutil.copytree(MODELS / name, folder / "model" / "1")
    return folder / "model"


def found_faster(model: Path) -> Path:
    """Store a verdict for OpenVINO: for a model that takes microseconds, a busy machine may not reach it."""
    verdict = {"serving_default": Verdict(OPENVINO, "faster", is_equal=True)}
    remember(model / "1" / IN_MODEL, Key.of(str(model / "1"), "f32"), verdict)
    return model


def test_openvino_answers_without_tensorflow_in_memory(tmp_path: Path) -> None:
    with server(tmp_path / "server", found_faster(copied(tmp_path))) as running:
        running.wait_ready()
        assert chosen(running) == {"serving_default": "openvino"}
        assert running.predict("m", instances=[1.0, 2.0, 5.0]) == (200, {"predictions": [2.5, 3.0, 4.5]})
        assert not has_tensorflow(running)


def test_a_verdict_is_remembered_for_the_same_files(tmp_path: Path) -> None:
    model, cache = copied(tmp_path), tmp_path / "cache"
    flag = f"--engine_cache_dir={cache}"
    with server(tmp_path / "1", model, flag) as first:
        assert COMPARED in first.wait_ready().stderr
        decided = chosen(first)
    with server(tmp_path / "2", model, flag) as second:
        assert COMPARED not in second.wait_ready().stderr
        assert chosen(second) == decided


def test_what_was_spoiled_is_found_out_again(tmp_path: Path) -> None:
    """An altered file, and one left under a temporary name. Others: tests/unit/lightbox/model_runtime/engines/."""
    model, cache = copied(tmp_path), tmp_path / "cache"
    flag = f"--engine_cache_dir={cache}"
    with server(tmp_path / "1", model, flag) as first:
        decided = chosen(first.wait_ready())
    (verdict,) = cache.iterdir()
    whole = verdict.read_bytes()
    verdict.with_name(f"{verdict.name}abc").write_bytes(whole[:100])
    spoiled = whole.replace(b'"is_equal": true', b'"is_equal": null')
    assert spoiled != whole
    verdict.write_bytes(spoiled)
    with server(tmp_path / "2", model, flag) as second:
        assert COMPARED in second.wait_ready().stderr
        assert second.predict("m", instances=[1.0]) == (200, {"predictions": [2.5]})
        assert chosen(second).keys() == decided.keys()
    assert second.stderr.count(f"{verdict} is damaged: its facts are determined again") == 1
    assert disk_cache.read(verdict)


def test_a_verdict_travels_with_its_model(tmp_path: Path) -> None:
    model = copied(tmp_path)
    with server(tmp_path / "1", model, f"--engine_cache_dir={tmp_path / 'cache'}") as first:
        first.wait_ready()
        decided = chosen(first)
    (verdict,) = (tmp_path / "cache").glob("verdict-*.json")
    (model / "1" / IN_MODEL).parent.mkdir(exist_ok=True)
    shutil.copy(verdict, model / "1" / IN_MODEL)
    with server(tmp_path / "2", model) as second:
        assert COMPARED not in second.wait_ready().stderr
        assert chosen(second) == decided


def test_a_verdict_does_not_overrule_the_gate(tmp_path: Path) -> None:
    """Otherwise a file beside a model could make the server abort."""
    model = copied(tmp_path, "classify_regress/1")
    key = Key.of(str(model / "1"), "f32")
    remember(model / "1" / IN_MODEL, key, {"serving_default": Verdict("openvino", "trust me", is_equal=True)})
    with server(tmp_path / "server", model) as running:
        running.wait_ready()
        assert set(chosen(running).values()) == {"tensorflow"}


def test_openvino_alone_refuses_what_it_does_not_take(tmp_path: Path) -> None:
    with server(tmp_path / "server", copied(tmp_path, "strings/1"), engine="openvino") as running:
        assert running.wait_end() == 255
    text = running.stdout + running.stderr
    assert "OpenVINO takes no signature of" in text
    assert "serving_default: input 'text' is string" in text or "input 'raw_bytes' is string" in text


def test_openvino_alone_names_the_signature_that_it_does_not_take(tmp_path: Path) -> None:
    with server(tmp_path / "server", copied(tmp_path, "dtypes/1"), engine="openvino") as running:
        running.wait_ready()
        status, text = running.predict("m", signature_name="double", instances=[1.0])
        assert status == 501
        assert text == {"error": "engine openvino does not take signature 'double': input 'x' is double"}
        assert running.predict("m", signature_name="float", instances=[1.0])[0] == 200
        status, text = running.predict("m", signature_name="float", instances=[])
        assert status == 400
        assert not has_tensorflow(running)


def test_a_model_chooses_for_itself(tmp_path: Path) -> None:
    """This also works if the server sees version and options through links, as Lightbox presents them."""
    model = copied(tmp_path)
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "1").symlink_to(model / "1", target_is_directory=True)
    (model / "code").mkdir()
    (model / "code" / "lightbox.json").write_text('{"engine": "openvino"}')
    beside_all = model.parent / "code"
    for place in (beside_all, model / "code"):
        (model / "code" if place is beside_all else beside_all).rename(place)
        (linked / "code").unlink(missing_ok=True)
        (linked / "code").symlink_to(place, target_is_directory=True)
        with server(tmp_path / f"of-{place.parent.name}", linked, engine="tensorflow") as running:
            running.wait_ready()
            assert chosen(running) == {"serving_default": "openvino"}
    (model / "code" / "lightbox.json").write_text('{"engine": "tensorflow", "precision": "bf16"}')
    with server(tmp_path / "all", model, '--engine_options={"engine": "openvino", "precision": "f32"}') as running:
        running.wait_ready()
        assert chosen(running) == {"serving_default": "openvino"}
    (model / "code" / "lightbox.json").write_text('{"engine": "fast"}')
    with server(tmp_path / "2", model) as running:
        assert running.wait_end() == 255
        assert f"engine: expected {', '.join(CHOICES)}, got 'fast'" in running.stdout + running.stderr


def test_engines_are_shown(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    with server(
        tmp_path / "server", copied(tmp_path, "multi_signature/1"), f"--engine_report_dir={reports}"
    ) as running:
        running.wait_ready()
        reply = json.loads((reports / "m" / "1.json").read_text())
        assert {name: item["engine"] for name, item in reply.items()} == chosen(running)
        assert all("OpenVINO matches TensorFlow on" in item["reason"] for item in reply.values())


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--engine=fast", f"--engine: expected {', '.join(CHOICES)}, got 'fast'"),
        ('--engine_options={"precision": "f16"}', "--engine_options: precision: expected f32, bf16, int8, got 'f16'"),
        ("--engine_options=int8", "--engine_options: expected a JSON object"),
    ],
)
def test_flags_that_cannot_be_followed(tmp_path: Path, flag: str, text: str) -> None:
    with ModelServer(tmp_path, "--model_name=m", f"--model_base_path={MODELS / 'half_plus_two'}", flag) as running:
        assert running.wait_end() == 255
        assert text in running.stdout


def test_nothing_is_sent_and_nothing_written_elsewhere(tmp_path: Path) -> None:
    """OpenVINO can report its use to third parties through a package that is not installed here."""
    home, cache = tmp_path / "home", tmp_path / "cache"
    home.mkdir()
    environ = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    with server(tmp_path / "server", copied(tmp_path), f"--engine_cache_dir={cache}", env=environ) as running:
        running.wait_ready()
        running.predict("m", instances=[1.0])
        assert list(home.iterdir()) == []
        ports = {running.grpc_port, running.rest_port}
        assert {local for local, _ in established(running.process.pid)} <= ports


def established(pid: int) -> list[tuple[int, int]]:
    import psutil

    return [(item.laddr.port, item.raddr.port if item.raddr else 0) for item in psutil.Process(pid).net_connections()]


def test_the_package_that_reports_is_in_no_lock() -> None:
    locks = sorted((Path(__file__).parents[3] / "requirements").glob("*.lock"))
    assert len(locks) > 5
    assert not [lock.name for lock in locks if "openvino-telemetry" in lock.read_text()]
