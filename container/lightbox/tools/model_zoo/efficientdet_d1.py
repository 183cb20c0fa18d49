"""EfficientDet-D1's network: EfficientNet-B1, four BiFPN layers of 88 channels, class and box heads.

Built as it is deployed: batch normalisation folded into the convolutions' biases. Weights are seeded random
numbers: detections are meaningless, their latency is realistic. The published model is in published.py.
Architecture: Tan, Pang, Le, "EfficientDet: Scalable and Efficient Object Detection", 2020.
"""

from typing import Any

from lightbox.tools.model_zoo.detection_outputs import ANCHORS_PER_CELL, CLASSES, SIDE, detect
from lightbox.tools.model_zoo.image_model import ImageModel, Scaling
from lightbox.tools.model_zoo.weights import fill_seeded

SEED = 20200727
SCALING: Scaling = "none"
INPUT_NAME = "input_tensor"
CHANNELS = 88
BIFPN_LAYERS = 4
HEAD_LAYERS = 3
# With a little more than BODY_GAIN, signals explode through this depth; with HEAD_GAIN the best scores of a photo are
# about 0.5.
BODY_GAIN, HEAD_GAIN = 1.4, 19.0
# EfficientNet-B1's stages: filters, kernel, stride, expansion, repeats; the outputs of three feed the BiFPN.
STAGES = (
    (16, 3, 1, 1, 2),
    (24, 3, 2, 6, 3),
    (40, 5, 2, 6, 3),
    (80, 3, 2, 6, 4),
    (112, 5, 1, 6, 4),
    (192, 5, 2, 6, 5),
    (320, 3, 1, 6, 2),
)
TAPS = (2, 4, 6)


def image_model() -> ImageModel:
    """Return the seeded detector: pixels 0..255 of one 640x640 image to the zoo's eight outputs."""
    network = keras_model()
    return ImageModel(
        predict=lambda pixels: detect(*network(pixels, training=False)),
        keep=[variable.value for variable in network.variables],
        height=SIDE,
        width=SIDE,
        scaling=SCALING,
        weights=f"random weights (seed {SEED})",
        random=True,
        batch=1,
        uint8_name=INPUT_NAME,
    )


def keras_model() -> Any:
    """Return the Keras model: float32 [1, 640, 640, 3] in 0..255 to class logits and box codes."""
    import keras

    image = keras.Input((SIDE, SIDE, 3), batch_size=1)
    features = pyramid(backbone(image))
    for _ in range(BIFPN_LAYERS):
        features = bifpn(features)
    logits = head(features, CLASSES, name="classes", bias=-4.6)
    codes = head(features, 4, name="boxes", bias=0.0)
    network = keras.Model(image, [logits, codes])
    gains = {layer.name: BODY_GAIN for layer in network.layers}
    fill_seeded(network, SEED, gains | {"classes": HEAD_GAIN, "boxes": HEAD_GAIN})
    return network


def backbone(image: Any) -> list[Any]:
    """Return EfficientNet-B1's features at strides 8, 16 and 32."""
    from keras import layers

    features = layers.Rescaling(1 / 127.5, offset=-1.0)(image)
    features = layers.Conv2D(32, 3, 2, padding="same", activation="swish")(features)
    taps = []
    for stage, (filters, kernel, stride, expansion, repeats) in enumerate(STAGES):
        for repeat in range(repeats):
            features = inverted_bottleneck(features, filters, kernel, 1 if repeat else stride, expansion)
        if stage in TAPS:
            taps.append(features)
    return taps


def inverted_bottleneck(features: Any, filters: int, kernel: int, stride: int, expansion: int) -> Any:
    """Expand, convolve depthwise, squeeze and excite, project; with a shortcut where the shape stays."""
    from keras import layers

    narrow = features.shape[-1]
    wide = narrow * expansion
    inner = layers.Conv2D(wide, 1, activation="swish")(features) if expansion > 1 else features
    inner = layers.DepthwiseConv2D(kernel, stride, padding="same", activation="swish")(inner)
    gate = layers.GlobalAveragePooling2D(keepdims=True)(inner)
    gate = layers.Conv2D(narrow // 4, 1, activation="swish")(gate)
    gate = layers.Conv2D(wide, 1, activation="sigmoid")(gate)
    inner = layers.Conv2D(filters, 1)(layers.Multiply()([inner, gate]))
    return layers.Add()([inner, features]) if stride == 1 and filters == narrow else inner


def pyramid(taps: list[Any]) -> list[Any]:
    """Bring the backbone's three features to one width and add two coarser levels: strides 8 to 128."""
    from keras import layers

    levels = [layers.Conv2D(CHANNELS, 1)(tap) for tap in taps]
    levels.append(layers.MaxPooling2D(3, 2, padding="same")(layers.Conv2D(CHANNELS, 1)(taps[-1])))
    levels.append(layers.MaxPooling2D(3, 2, padding="same")(levels[-1]))
    return levels


def bifpn(levels: list[Any]) -> list[Any]:
    """Fuse the levels once from coarse to fine and once back."""
    from keras import layers

    down = [levels[-1]]
    for level in reversed(levels[:-1]):
        down.insert(0, fuse([level, layers.UpSampling2D()(down[0])]))
    up = [down[0]]
    for level, middle in zip(levels[1:], down[1:], strict=True):
        finer = layers.MaxPooling2D(3, 2, padding="same")(up[-1])
        up.append(fuse([level, finer] if middle is level else [level, middle, finer]))
    return up


def fuse(features: list[Any]) -> Any:
    """Average features of one size and convolve them."""
    from keras import layers

    mixed = layers.Activation("swish")(layers.Average()(features))
    return layers.SeparableConv2D(CHANNELS, 3, padding="same")(mixed)


def head(levels: list[Any], values: int, name: str, bias: float) -> Any:
    """Return [1, 76725, values]: one head shared by all levels, nine anchors per cell."""
    from keras import initializers, layers

    convolutions = [layers.SeparableConv2D(CHANNELS, 3, padding="same", activation="swish") for _ in range(HEAD_LAYERS)]
    predict = layers.SeparableConv2D(
        ANCHORS_PER_CELL * values, 3, padding="same", bias_initializer=initializers.Constant(bias), name=name
    )

    def of_level(features: Any) -> Any:
        for convolution in convolutions:
            features = convolution(features)
        return layers.Reshape((-1, values))(predict(features))

    return layers.Concatenate(axis=1)([of_level(features) for features in levels])
