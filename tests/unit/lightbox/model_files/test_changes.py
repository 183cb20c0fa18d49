"""Check whether a new version can replace the serving one."""

from __future__ import annotations

from lightbox.model.spec import SignatureSpec, TensorSpec
from lightbox.model_files.changes import change_problem
from support.parameters import each

Tensors = dict[str, tuple[str, tuple[int | None, ...] | None]]
PHOTO: Tensors = {"photo": ("float32", (None, 224, 224, 3))}
ROW: Tensors = {"x": ("float32", (None, 4))}
SCORES: Tensors = {"scores": ("float32", (None, 10))}


def version(number: int, inputs: Tensors, outputs: Tensors, *names: str) -> dict[str, SignatureSpec]:
    def specs(tensors: Tensors) -> dict[str, TensorSpec]:
        return {name: TensorSpec(name, *kind) for name, kind in tensors.items()}

    signatures = names or ("serving_default",)
    return {name: SignatureSpec("m", number, name, specs(inputs), specs(outputs)) for name in signatures}


@each(
    ("was", "new"),
    [
        (PHOTO, {"photo": ("float32", (None, 299, 299, 3))}),
        (PHOTO, {"photo": ("uint8", (None, None, None, 3))}),
        (PHOTO, {"photo": ("float32", (None, 224, 224, 1))}),
        (PHOTO, {"photo": ("float32", (None, 3, 224, 224))}),
        ({"photo": ("string", (None,))}, {"photo": ("string", None)}),
        (ROW, {"x": ("float64", (8, 7))}),
        (ROW, {"x": ("bfloat16", (None, 7))}),
        (ROW, {"x": ("float32", None)}),
        ({"x": ("float32", None)}, ROW),
        ({"x": ("uint8", ())}, {"x": ("int64", ())}),
    ],
)
def test_inputs_that_take_what_came_before(was: Tensors, new: Tensors) -> None:
    assert change_problem(version(1, was, SCORES), version(2, new, SCORES)) is None


@each(
    ("was", "new", "sentence"),
    [
        (
            PHOTO,
            {"photo": ("float32", (None, 150528))},
            "an image, as photo (float32 [-1,224,224,3]) of version 1, got photo (float32 [-1,150528])",
        ),
        (PHOTO, PHOTO | {"size": ("int32", (2,))}, "got photo (float32 [-1,224,224,3]), size (int32 [2])"),
        (
            PHOTO,
            {"image": ("float32", (None, 224, 224, 3))},
            "expected the inputs photo (float32 [-1,224,224,3]) of version 1, got image",
        ),
        (PHOTO, {"photo": ("string", (None,))}, "got photo (string [-1])"),
        ({"photo": ("string", (None,))}, PHOTO, "expected the inputs photo (string [-1]) of version 1"),
        (
            ROW,
            {"y": ("float32", (None, 4))},
            "expected the inputs x (float32 [-1,4]) of version 1, got y (float32 [-1,4])",
        ),
        (ROW, {"x": ("int32", (None, 4))}, "got x (int32 [-1,4])"),
        (ROW, {"x": ("float32", (None,))}, "got x (float32 [-1])"),
        (ROW, {}, "got none"),
    ],
)
def test_inputs_that_do_not(was: Tensors, new: Tensors, sentence: str) -> None:
    assert sentence in (change_problem(version(1, was, SCORES), version(2, new, SCORES)) or "")


@each(
    ("new", "fits"),
    [
        ({"scores": ("float32", (None, 7))}, True),
        ({"scores": ("float16", (None, None))}, True),
        ({"scores": ("float32", None)}, True),
        ({"scores": ("int64", (None, 10))}, False),
        ({"scores": ("string", (None, 10))}, False),
        ({"scores": ("float32", (None,))}, False),
        ({"probabilities": ("float32", (None, 10))}, False),
        (SCORES | {"features": ("float32", (None, 99))}, False),
    ],
)
def test_outputs(new: Tensors, fits: bool) -> None:
    reply = change_problem(version(1, PHOTO, SCORES), version(2, PHOTO, new))
    assert (
        reply is None if fits else reply and "expected the outputs scores (float32 [-1,10]) of version 1, got " in reply
    )


def test_every_signature_stays() -> None:
    one, both = version(1, ROW, SCORES), version(2, ROW, SCORES, "serving_default", "features")
    assert change_problem(one, both) is None
    assert change_problem(both, one) == "expected the signature 'features' of version 2, got serving_default"
    other = both | version(3, ROW, ROW, "features")
    assert (change_problem(both, other) or "").startswith("signature 'features': expected the outputs scores")
