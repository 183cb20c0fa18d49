"""Folding removes all batch normalization and keeps the network's outputs."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.extended


def test_mobilenet_v2_answers_as_before() -> None:
    import keras

    from lightbox.tools.model_zoo import mobilenet_v2
    from lightbox.tools.model_zoo.folding import fold_batch_norms

    network = mobilenet_v2.seeded_model()
    random = np.random.default_rng(3)
    for layer in network.layers:  # new layers are the identity
        if isinstance(layer, keras.layers.BatchNormalization):
            size = layer.gamma.shape
            layer.set_weights(
                [random.uniform(low, high, size) for low, high in ((0.5, 1.5), (-0.2, 0.2), (-0.2, 0.2), (0.5, 2))]
            )
    folded = fold_batch_norms(network)
    pixels = random.uniform(-1, 1, (2, 224, 224, 3)).astype(np.float32)
    before = network.predict(pixels, verbose=0)
    assert before.std() > 1e-5
    np.testing.assert_allclose(folded.predict(pixels, verbose=0), before, rtol=1e-3, atol=1e-7)
    assert not any(isinstance(layer, keras.layers.BatchNormalization) for layer in folded.layers)


def test_what_cannot_be_folded_is_named() -> None:
    import keras

    from lightbox.tools.model_zoo.folding import fold_batch_norms

    pixels = keras.Input((8, 8, 3))
    network = keras.Model(pixels, keras.layers.BatchNormalization(name="lonely")(keras.layers.ReLU()(pixels)))
    with pytest.raises(ValueError, match="lonely: a batch normalization can be folded into a convolution only"):
        fold_batch_norms(network)
