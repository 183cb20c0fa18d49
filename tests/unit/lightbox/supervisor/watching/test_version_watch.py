"""Versions on a real disk: folders that disappear and return, and the reasons to hold a new version."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.model.plan import ServingPlan
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.start_checks import find_problems
from lightbox.supervisor.watching.version_links import VersionLinks
from lightbox.supervisor.watching.version_watch import VersionWatch
from lightbox.tools.harness.ports import free_ports
from support.models import export_classes
from support.patience import PATIENCE


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for version in ("1", "2"):
        (tmp_path / "source" / version).mkdir(parents=True)
        (tmp_path / "shown" / version).parent.mkdir(exist_ok=True)
        (tmp_path / "shown" / version).symlink_to(tmp_path / "source" / version)
    return tmp_path / "source"


def watching(model: PlannedModel, run_dir: Path, default: str = "m", **environ: str) -> VersionWatch:
    plan = ServingPlan(models={model.name: model}, default_model=default, model_servers=())
    return VersionWatch(plan, load_settings(environ), run_dir, [], "")


def links(watch: VersionWatch) -> VersionLinks:
    (versions,) = watch._followed.values()
    return versions.links


def test_a_version_without_its_folder_is_hidden_until_that_is_back(source: Path) -> None:
    shown = source.parent / "shown"
    model = PlannedModel(name="m", base_path=shown, options=ModelOptions(), versions_dir=source)
    watch = watching(model, source.parent)
    (source / "1").rename(source / "away")
    watch.server_ended()
    assert [path.name for path in shown.iterdir()] == ["2"]
    around = links(watch)
    assert asyncio.run(around.found()).keys() == {2}
    assert [path.name for path in shown.iterdir()] == ["2"]
    (source / "away").rename(source / "1")
    assert asyncio.run(around.found()).keys() == {1, 2}
    assert sorted(path.name for path in shown.iterdir()) == ["1", "2"]
    assert (shown / "1").resolve() == source / "1"
    watch.server_ended()
    assert sorted(path.name for path in shown.iterdir()) == ["1", "2"]


def test_a_new_model_beside_the_served_ones_is_named_once(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, model = source.parent, PlannedModel(name="m", base_path=source.parent / "shown", options=ModelOptions())
    watch = watching(model, root, LIGHTBOX_MODEL_DIR=str(root))
    (root / "empty").mkdir()
    (root / "3").mkdir()
    export_classes(root / "new", 1, 10)
    several = watching(model, root, LIGHTBOX_MODEL_DIR=str(root), SAGEMAKER_MULTI_MODEL="true")

    async def follow() -> list[str]:
        following = asyncio.gather(watch.follow(), several.follow())
        for folder in ("new", "late"):
            while f"the model {folder!r} in {root / folder} is new and is not served: it needs a restart" not in (
                reply := "".join(lines)
            ):
                await asyncio.sleep(0.01)
                lines.append(capsys.readouterr().err)
            if folder == "new":
                export_classes(root / "late", 1, 10)
        following.cancel()
        return reply.splitlines()

    lines: list[str] = []
    assert len(asyncio.run(asyncio.wait_for(follow(), PATIENCE))) == 2


def test_what_was_hidden_is_shown_before_versions_are_followed(source: Path) -> None:
    shown = source.parent / "shown"
    model = PlannedModel(name="m", base_path=shown, options=ModelOptions(), versions_dir=source)
    watch = watching(model, source.parent)
    source.rename(source.parent / "away")
    watch.server_ended()
    asyncio.run(watch.show_recovered())
    assert list(shown.iterdir()) == []
    (source.parent / "away").rename(source)
    asyncio.run(watch.show_recovered())
    assert sorted(path.name for path in shown.iterdir()) == ["1", "2"]


def test_a_folder_that_is_removed_and_made_again_at_once_is_another_one(source: Path) -> None:
    model = PlannedModel(name="m", base_path=source.parent / "shown", options=ModelOptions(), versions_dir=source)
    around = links(watching(model, source.parent))
    before = around.files()
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        shutil.rmtree(source / "2")
        (source / "2").mkdir()
        after = around.files()
        assert after[2].folder != before[2].folder
        assert after[1] == before[1]
        before = after
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors  # those of earlier tests may go meanwhile


NAMES = [f"class {number}" for number in range(10)]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Export version 1 of an image model with ten named classes."""
    (tmp_path / "shown").mkdir()
    folder = tmp_path / "models" / "m"
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "lightbox.json").write_text(json.dumps({"labels": NAMES}))
    export_classes(folder, 1, 10)
    return folder


def beside(folder: Path, labels: bool = True, default: str = "m", allows: bool = False, **environ: str) -> VersionLinks:
    """Return the version links of the model after a start with version 1."""
    labelled = ModelOptions(labels=tuple(NAMES) if labels else None)
    options = labelled.model_copy(update={"model_changes": "allow"}) if allows else labelled
    code = (folder / "code",)
    shown = folder.parents[1] / "shown"
    model = PlannedModel(name="m", base_path=shown, options=options, versions_dir=folder, code_dirs=code)
    return links(watching(model, folder.parents[1], default, **environ))


def misfit(around: VersionLinks, version: int) -> str | None:
    return asyncio.run(around.misfit(version, 1))


def test_a_version_is_held_for_what_a_start_is_refused_for(pictures: Path) -> None:
    around = beside(pictures)
    export_classes(pictures, 2, 7)
    reply = misfit(around, 2)
    environ = {"LIGHTBOX_MODEL_DIR": str(pictures), "SAGEMAKER_BIND_TO_PORT": str(free_ports())}
    (refusal,) = find_problems(load_settings(environ))
    assert reply == f"{refusal}; other options need a restart"
    assert "expected a label for each of the 7 classes of the output scores, got 10" in refusal
    assert misfit(beside(pictures, allows=True), 2) == reply, "no change is allowed to break a start"
    export_classes(pictures, 3, 10)
    assert misfit(around, 3) is None


def test_the_options_of_the_start_count(pictures: Path) -> None:
    around = beside(pictures)
    export_classes(pictures, 2, 7)
    (pictures / "code" / "lightbox.json").write_text(json.dumps({"labels": NAMES[:7]}))
    assert "expected a label for each of the 7 classes" in (misfit(around, 2) or "")


def test_a_variable_for_all_models_holds_versions_of_the_default_one(pictures: Path) -> None:
    export_classes(pictures, 2, 7)
    names = "names.txt"  # read at the start
    assert (misfit(beside(pictures, LIGHTBOX_LABELS=names), 2) or "").startswith(
        "LIGHTBOX_LABELS: expected a label for each"
    )
    assert misfit(beside(pictures, default="other", LIGHTBOX_LABELS=names), 2) is None


def test_a_file_of_labels_that_the_start_has_left_out_holds_no_version(pictures: Path) -> None:
    """As where LIGHTBOX_LABELS fits other models."""
    (pictures / "code" / "lightbox.json").unlink()
    (pictures / "code" / "labels.txt").write_text("cat")
    around = beside(pictures, labels=False, default="other", LIGHTBOX_LABELS="labels.txt")
    export_classes(pictures, 2, 10)
    assert misfit(around, 2) is None


def test_code_in_a_versions_folder_is_found_while_serving_too(pictures: Path) -> None:
    around = beside(pictures)
    export_classes(pictures, 2, 10)
    (pictures / "2" / "inference.py").touch()
    assert misfit(around, 2) == (
        f"{pictures}/2/inference.py is not where it is looked for: move it to {pictures}/code/inference.py"
    )


def test_what_takes_no_image_any_more_is_held_unless_changes_are_allowed(pictures: Path) -> None:
    around, allowed = beside(pictures), beside(pictures, allows=True)
    export_classes(pictures, 2, 10, flat=True)
    shutil.rmtree(pictures / "1")  # its inputs are remembered
    assert misfit(around, 2) == (
        "signature 'serving_default': expected an image, as image (uint8 [-1,8,8,3]) of version 1, "
        'got image (uint8 [-1,192]); the option "model_changes": "allow" serves such a version'
    )
    assert misfit(allowed, 2) is None


def test_a_version_is_compared_with_one_that_has_come_while_serving(pictures: Path) -> None:
    around = beside(pictures, labels=False)
    export_classes(pictures, 2, 10, flat=True)
    export_classes(pictures, 3, 10, flat=True)
    assert misfit(around, 2) is not None
    shutil.rmtree(pictures / "2")
    assert asyncio.run(around.misfit(3, 2)) is None


def test_a_version_in_text_form_is_left_to_its_probe(pictures: Path) -> None:
    around = beside(pictures)
    (pictures / "2").mkdir()
    (pictures / "2" / "saved_model.pbtxt").write_text("saved_model_schema_version: 1")
    assert misfit(around, 2) is None


def test_the_metrics_page_names_the_folder_that_a_user_knows(source: Path) -> None:
    model = PlannedModel(name="m", base_path=source.parent / "shown", options=ModelOptions(), versions_dir=source)
    watch = watching(model, source.parent)
    versions = watch._followed["m"]
    versions._hide(2, f"it cannot be loaded: no file {source.parent / 'shown' / '2'}")
    assert watch.not_served() == [("m", "2", "load")]
