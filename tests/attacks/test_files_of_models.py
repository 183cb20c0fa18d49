"""Models that name files, or hold links to them, outside of their folder: keys, the environment, other tenants'."""

from __future__ import annotations

import json
import struct
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import lightbox
from lightbox.base.errors import BadRequest, StartError
from lightbox.base.machine.links import LEADS_OUT
from lightbox.base.request_context import RequestContext
from lightbox.features.multi_model import MultiModel
from lightbox.features.multi_model.model_path import Source
from lightbox.model_files.checks import version_problem
from lightbox.model_files.tf_graph import parse
from lightbox.model_runtime.formats import LITERT, ModelFile
from lightbox.serving.settings_loading import load_settings
from support.model_files import write_dense_as
from support.model_loader import Listener, accept, loader
from support.models import GOLDEN, copy_golden
from support.parameters import each
from support.patience import PATIENCE

THERE, NOWHERE = "/etc/passwd", "/etc/nothing"
CLASSES = 3


def external(place: str) -> TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", place), ("length", str(10**9))):
        tensor.external_data.add(key=key, value=value)
    return tensor


def onnx_model(initializer: TensorProto | None = None, constant: TensorProto | None = None) -> bytes:
    """Return a model that adds w to [n, 3] numbers; ``constant`` is in a node of a branch that is never taken."""
    weights = initializer or numpy_helper.from_array(np.zeros(1, np.float32), "w")
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    if constant is not None:
        branch = helper.make_graph([helper.make_node("Constant", [], ["c"], value=constant)], "b", [], [])
        nodes.append(helper.make_node("If", ["w"], ["z"], then_branch=branch, else_branch=branch))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", CLASSES]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weights])
    made: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString()
    return made


def saved_model(asset: str) -> bytes:
    """Return a SavedModel that names an asset."""
    model = parse("SavedModel", (GOLDEN / "half_plus_two" / "1" / "saved_model.pb").read_bytes())
    model.meta_graphs[0].asset_file_def.add(filename=asset)
    made: bytes = model.SerializeToString()
    return made


def pack(archive: Path, **files: bytes) -> Path:
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, BytesIO(content))
    return archive


def refusals(tmp_path: Path, name: str, **files: bytes) -> list[str]:
    """Return what a caller of multi-model mode and an operator get for an archive."""
    archive = pack(tmp_path / "models" / f"{name}.tar.gz", **files)
    (tmp_path / "run").mkdir(exist_ok=True)
    models = loader(tmp_path / "run", Listener())
    with pytest.raises(BadRequest) as refused:
        models.load("a", Source(archive.name, "TargetModel"), RequestContext(PATIENCE))
    with pytest.raises(StartError) as stopped:
        lightbox.load(archive)
    return [refused.value.message, str(stopped.value)]


NAMES: list[Callable[[str], dict[str, bytes]]] = [
    lambda place: {
        "1/model.onnx": onnx_model(),
        "code/lightbox.json": json.dumps({"labels": place}).encode(),
    },
    lambda place: {
        "1/model.onnx": onnx_model(),
        "code/lightbox.json": json.dumps({"labels": "../" * 20 + place[1:]}).encode(),
    },
    lambda place: {"1/model.onnx": onnx_model(external(place))},
    lambda place: {"1/model.onnx": onnx_model(external("../" * 20 + place[1:]))},
    lambda place: {"1/model.onnx": onnx_model(constant=external(place))},
    lambda place: {"1/saved_model.pb": saved_model(place)},
    lambda place: {"1/saved_model.pb": saved_model("../" * 20 + place[1:])},
]


@each("files", NAMES)
def test_a_file_that_a_model_names_is_not_even_looked_at(
    tmp_path: Path, files: Callable[[str], dict[str, bytes]]
) -> None:
    there, nowhere = (refusals(tmp_path, "m", **files(place)) for place in (THERE, NOWHERE))
    assert [text.replace("passwd", "nothing") for text in there] == nowhere
    assert all(len(text) < 500 and "root:" not in text for text in there)


def test_labels_may_be_anywhere_in_the_models_own_folder(tmp_path: Path) -> None:
    write_dense_as(tmp_path / "net" / "1" / "model.onnx")
    for folder in ("net", "net/code", "other"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "names.txt").write_text("a\nb\nc\n")
    for labels, is_inside in {
        "names.txt": True,
        "../names.txt": True,
        str(tmp_path / "net" / "names.txt"): True,
        "../../other/names.txt": False,
        str(tmp_path / "other" / "names.txt"): False,
        "../../nowhere/../net/names.txt": False,
    }.items():
        (tmp_path / "net" / "code" / "lightbox.json").write_text(json.dumps({"labels": labels}))
        try:
            lightbox.load(tmp_path / "net")
        except StartError as error:
            assert (is_inside, str(error).endswith(LEADS_OUT)) == (False, True), labels
        else:
            assert is_inside, labels
    (tmp_path / "net" / "code" / "lightbox.json").unlink()
    lightbox.load(tmp_path / "net", labels=str(tmp_path / "other" / "names.txt"))


LINKS = ["1/model.onnx", "1/w.bin", "1/metadata.yaml", "1/assets.extra", "code", "code/lightbox.json", "code/names.txt"]


def write_whole(folder: Path, suffix: str = "onnx") -> None:
    """Write a model with a file of each kind."""
    write_dense_as(folder / "1" / f"model.{suffix}")
    if suffix == "onnx":
        model = onnx.load(folder / "1" / "model.onnx")
        onnx.save(model, folder / "1" / "model.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    for name in ("1/assets.extra/weights.txt", "1/metadata.yaml", "code/names.txt", "code/lightbox.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("a\nb\nc\n" if name == "code/names.txt" else '{"labels": "names.txt"}')


def with_link(folder: Path, link: str, place: Path, suffix: str = "onnx") -> None:
    """Write a model, then move a part of it to ``place``, to which a link leads."""
    write_whole(folder, suffix)
    place.parent.mkdir(parents=True, exist_ok=True)
    (folder / link).rename(place)
    (folder / link).symlink_to(place)


def refused(folder: Path) -> str:
    try:
        lightbox.load(folder)
    except StartError as error:
        return str(error)
    return ""


@each(("link", "suffix"), [*((link, "onnx") for link in [*LINKS, "1"]), ("1/model.bin", "xml"), ("1/model.xml", "xml")])
def test_a_link_out_is_followed_where_the_operator_allows_it(
    tmp_path: Path, link: str, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_link(tmp_path / "net", link, tmp_path / "cache" / "ab", suffix)
    assert refused(tmp_path / "net").endswith(LEADS_OUT)
    (tmp_path / "models").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "net").rename(tmp_path / "models" / "net")
    for allowed in ("", str(tmp_path / "other"), f"{tmp_path / 'other'},{tmp_path / 'cache'}"):
        models = loader(tmp_path / "run", Listener(), LIGHTBOX_LINKED_FOLDERS=allowed)
        monkeypatch.setenv("LIGHTBOX_LINKED_FOLDERS", allowed)
        if allowed.endswith("cache"):
            assert models.load("a", Source("net"), RequestContext(PATIENCE)).model.name == "a"
            assert not refused(tmp_path / "models" / "net")
            continue
        with pytest.raises(BadRequest, match="leads out of the model's folder"):
            models.load("a", Source("net"), RequestContext(PATIENCE))
        assert refused(tmp_path / "models" / "net").endswith(LEADS_OUT)
    monkeypatch.delenv("LIGHTBOX_LINKED_FOLDERS")


def test_a_saved_model_holds_no_link_out(tmp_path: Path) -> None:
    copy_golden("half_plus_two", tmp_path / "net")
    folder = next(path for path in (tmp_path / "net").iterdir() if path.name.isdigit())
    assert version_problem(folder, "m", 1) is None
    (folder / "assets").mkdir()
    (folder / "assets" / "up").symlink_to("../../kept")
    (tmp_path / "net" / "kept").mkdir()
    assert version_problem(folder, "m", 1) is None
    for target in (THERE, NOWHERE):
        (tmp_path / "net" / "kept" / "words").unlink(missing_ok=True)
        (tmp_path / "net" / "kept" / "words").symlink_to(target)
        assert version_problem(folder, "m", 1) == f"{folder}/assets/up/words {LEADS_OUT}"


def test_what_platforms_and_stores_make_of_links_is_served(tmp_path: Path) -> None:
    """Hugging Face's cache, a ConfigMap, a root that is itself a link; a link into another repository is not."""
    files = {"1/model.onnx", "1/w.bin", "code/lightbox.json", "code/names.txt"}
    for owner in ("models--a--net", "models--b--net"):
        snapshot = tmp_path / "hub" / owner / "snapshots" / "0123abcd"
        write_whole(snapshot)
        (blobs := tmp_path / "hub" / owner / "blobs").mkdir()
        for name in files:
            blob = (snapshot / name).rename(blobs / name.replace("/", "0"))
            (snapshot / name).symlink_to(Path("../../../blobs", blob.name))
    mounted = tmp_path / "mounted"
    write_whole(mounted)
    for folder in ("1", "code"):
        (mounted / folder / "..2026").mkdir()
        for file in [path for path in (mounted / folder).iterdir() if path.is_file()]:
            file.rename(mounted / folder / "..2026" / file.name)
            file.symlink_to(f"..data/{file.name}")
        (mounted / folder / "..data").symlink_to("..2026")
    (tmp_path / "link").symlink_to(snapshot)
    for served in (snapshot, tmp_path / "link", mounted):
        assert not refused(served), served
    file = snapshot / "1" / "model.onnx"
    assert version_problem(file, "m", 1) is None
    (snapshot / "1" / "w.bin").unlink()
    (snapshot / "1" / "w.bin").symlink_to("../../../../models--a--net/blobs/10w.bin")
    for outside in (snapshot, tmp_path / "link"):
        assert refused(outside).endswith(LEADS_OUT), outside
    assert version_problem(file, "m", 1) == f"{file.parent}/w.bin {LEADS_OUT}"


def test_weights_that_litert_has_in_other_files_are_refused(tmp_path: Path) -> None:
    """A file of one table, whose only field is the list of the groups of buffers, each a file's name."""
    layout = struct.pack("<11H2x", 22, 8, *[0] * 8, 4)
    table = struct.pack("<iIII", len(layout), 4, 1, 0)
    (tmp_path / "model.tflite").write_bytes(struct.pack("<I", 8 + len(layout)) + b"TFL3" + layout + table)
    with pytest.raises(ValueError, match="its weights are in other files, which no engine opens"):
        ModelFile(tmp_path / "model.tflite", LITERT).signature()


@each("name", ["inference.py", "requirements.txt", "lib"])
def test_models_may_be_forbidden_to_have_code(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r}, 'w')\ndef postprocess(outputs, request): return 1\n".encode()
    path = f"code/{name}/helper.py" if name == "lib" else f"code/{name}"
    archive = pack(tmp_path / "models" / "m.tar.gz", **{"1/model.onnx": onnx_model(), path: code})
    (tmp_path / "run").mkdir()
    forbids = {"LIGHTBOX_MODEL_CODE": "false", "LIGHTBOX_CODE_DIR": str(tmp_path / "own" / "code")}
    for variable, value in forbids.items():
        monkeypatch.setenv(variable, value)
    models = loader(tmp_path / "run", Listener(), None, accept, **forbids)
    said = f"code/{name} is code, which LIGHTBOX_MODEL_CODE=false forbids in models"
    with pytest.raises(BadRequest, match=said):
        models.load("a", Source(archive.name), RequestContext(PATIENCE))
    with pytest.raises(StartError, match=said):
        lightbox.load(archive)
    pack(archive, **{"1/model.onnx": onnx_model(), "code/lightbox.json": b"{}"})
    assert models.load("a", Source(archive.name), RequestContext(PATIENCE)).model.code_dirs == ()
    settings = load_settings(
        forbids | {"LIGHTBOX_MODEL_DIR": str(tmp_path / "models"), "SAGEMAKER_MULTI_MODEL": "true"}
    )
    for place in ("own", "models"):
        (tmp_path / place / path).parent.mkdir(parents=True)
        (tmp_path / place / path).write_bytes(code)
        if place == "own":  # the operator's
            MultiModel().check(settings)
            continue
        with pytest.raises(StartError, match=said):
            MultiModel().check(settings)
    assert not ran.exists()
