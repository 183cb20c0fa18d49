"""How a module that a user's code misses can be had: what the message about a failed import says."""

from __future__ import annotations

from lightbox.user_code.places import LIB, REQUIREMENTS

BUILD_ARGUMENT = "--build-arg HANDLER_PACKAGES=aws"
WITH_BUILD_ARGUMENT = {"joblib": "joblib", "pandas": "pandas", "scipy": "scipy", "sklearn": "scikit-learn"}
"""Modules of requirements/handlers_aws.in and the packages that they come in."""
OTHERS = {
    "Cython": "cython",
    "PIL": "pillow",
    "aiohttp": "aiohttp",
    "awscli": "awscli",
    "boto3": "boto3",
    "botocore": "botocore",
    "cloudpickle": "cloudpickle",
    "cv2": "opencv-python-headless",
    "falcon": "falcon",
    "gevent": "gevent",
    "keras": "keras",
    "packaging": "packaging",
    "skimage": "scikit-image",
    "tensorflow": "tensorflow-cpu",
    "torch": "torch",
    "transformers": "transformers",
    "yaml": "pyyaml",
}
"""Other modules that handlers import: those of AWS's container, and packages whose name is not the module's."""


def how_to_have(module: str) -> str:
    """Return how to have a module that is missing: the package, the image's build argument, the line to add."""
    package = WITH_BUILD_ARGUMENT.get(module) or OTHERS.get(module)
    if package is None:
        return f"put the package into code/{REQUIREMENTS} or code/{LIB}/"
    line = f"add the line {package} to code/{REQUIREMENTS}, or put the package {package} into code/{LIB}/"
    if module in WITH_BUILD_ARGUMENT:
        return f"use an image that is built with {BUILD_ARGUMENT}, {line}"
    return line
