"""Every catalogue of models: an unknown name, and none."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.base.errors import BadRequest, ModelNotFound
from lightbox.features.multi_model.loadable_models import LoadableModels
from lightbox.features.multi_model.state import LoadedModels
from lightbox.model.catalogue import Catalogue
from lightbox.model.plan import PlannedModels, ServingPlan
from lightbox.serving.settings_loading import load_settings
from support.model_loader import Listener, loader


@pytest.mark.parametrize("kind", ["planned", "loadable"])
def test_a_model_that_is_not_there_and_a_request_that_names_none(tmp_path: Path, kind: str) -> None:
    models: Catalogue = PlannedModels(ServingPlan(models={}, default_model=None, model_servers=()))
    if kind == "loadable":
        settings = load_settings({"LIGHTBOX_MODEL_DIR": str(tmp_path), "SAGEMAKER_MULTI_MODEL": "true"})
        models = LoadableModels(settings, loader(tmp_path, Listener()), LoadedModels(tmp_path))
    assert models.names() == []
    assert models.is_fixed == (kind == "planned")
    with pytest.raises(ModelNotFound, match="other"), models.using("other"):
        pass
    with pytest.raises(BadRequest):
        models.find(None)
