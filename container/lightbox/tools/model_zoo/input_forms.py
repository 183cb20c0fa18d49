"""The three forms in which an image can enter a model: prepared tensor, raw pixels, encoded bytes.

    float32   [N, H, W, 3]   pixels scaled by the caller as the network wants them
    uint8     [N, H, W, 3]   pixels 0..255; the graph scales
    bytes     [N]            JPEG, PNG, GIF, BMP or WebP files; the graph decodes, resizes and scales

The graph decodes and resizes as Pillow does by default: one value in some hundred may differ, by 1 of 255.
It does not apply EXIF orientation, and takes the first frame of an animation.
"""

from typing import Any

from lightbox.tools.model_zoo.image_model import ImageModel, InputForm, Scaling


def left_to_caller(scaling: Scaling, form: InputForm) -> Scaling:
    """Return the scaling for prepared tensors: none if the graph scales."""
    return scaling if form == "float32" else "none"


def serving_function(model: ImageModel, form: InputForm) -> Any:
    """Return a tf.function of one input of this form, named and shaped for the signature."""
    import tensorflow as tf

    def serve(image: Any) -> Any:
        return model.predict(prepare(image, model, form))

    return tf.function(serve, input_signature=[input_spec(model, form)], autograph=False)


def input_spec(model: ImageModel, form: InputForm) -> Any:
    """Return the tf.TensorSpec of the signature's only input."""
    import tensorflow as tf

    shape = [model.batch] if form == "bytes" else [model.batch, model.height, model.width, 3]
    dtype = {"float32": tf.float32, "uint8": tf.uint8, "bytes": tf.string}[form]
    return tf.TensorSpec(shape, dtype, name=model.input_name(form))


def prepare(image: Any, model: ImageModel, form: InputForm) -> Any:
    """Turn an input of this form into what the network takes."""
    import tensorflow as tf

    if form == "float32":
        return image
    if form == "bytes":
        image = decode(image, model)
    return scale(tf.cast(image, tf.float32), model.scaling)


def decode(files: Any, model: ImageModel) -> Any:
    """Decode encoded images, string [N], to float32 [N, H, W, 3] of whole pixel values 0..255."""
    import tensorflow as tf

    pixels = tf.map_fn(
        lambda file: resize(decode_one(file), model.height, model.width),
        files,
        fn_output_signature=tf.TensorSpec([model.height, model.width, 3], tf.float32),
    )
    return tf.ensure_shape(pixels, [model.batch, model.height, model.width, 3])


def decode_one(file: Any) -> Any:
    """Decode one image to uint8 [H, W, 3]; a JPEG with the arithmetic that Pillow uses, not a faster one."""
    import tensorflow as tf

    return tf.cond(
        tf.io.is_jpeg(file),
        lambda: tf.io.decode_jpeg(file, channels=3, dct_method="INTEGER_ACCURATE"),
        lambda: tf.io.decode_image(file, channels=3, expand_animations=False),
    )


def resize(pixels: Any, height: int, width: int) -> Any:
    """Resize [H, W, 3] as Pillow does: bicubic, antialiased, rows first, rounded after each pass."""
    import tensorflow as tf

    for size in ([tf.shape(pixels)[0], width], [height, width]):
        resized = tf.image.resize(pixels, size, method="bicubic", antialias=True)
        pixels = tf.clip_by_value(tf.round(resized), 0.0, 255.0)
    return pixels


def scale(pixels: Any, scaling: Scaling) -> Any:
    """Scale float32 pixel values 0..255 with the arithmetic of keras.applications' preprocess_input."""
    if scaling == "unit":
        return pixels / 255.0
    if scaling == "tf":
        return pixels / 127.5 - 1.0
    return pixels
