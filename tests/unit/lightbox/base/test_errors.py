"""The tree of errors."""

from __future__ import annotations

import importlib
import pkgutil
import re

import lightbox
from lightbox.base import errors
from lightbox.base.errors import LightboxError, StartError


def test_every_error_class_has_a_status() -> None:
    def below(cls: type[LightboxError]) -> set[type[LightboxError]]:
        return {cls}.union(*(below(sub) for sub in cls.__subclasses__()))

    importlib.import_module("lightbox.features.tfs_api.forwarded_services")
    for cls in below(LightboxError):
        assert 400 <= cls("x").status <= 599
        assert cls("x").grpc_status


def test_what_stops_a_start_is_a_start_error_and_stands_in_the_tree() -> None:
    for module in pkgutil.walk_packages(lightbox.__path__, "lightbox."):
        # Ray has a separate environment.
        if not module.name.endswith("__main__") and module.name != "lightbox.tools.offline.ray":
            importlib.import_module(module.name)
    drawn = errors.__doc__ or ""
    assert {cls.__name__ for cls in StartError.__subclasses__()} <= set(re.findall(r"\w+", drawn))
    packages = "model_runtime tools"
    apart = tuple(f"lightbox.{name}." for name in packages.split())
    ours = [cls for cls in Exception.__subclasses__() if cls.__module__.startswith("lightbox.")]
    assert {cls for cls in ours if not cls.__module__.startswith(apart)} == {LightboxError, StartError}
