"""The three forms in which an image can enter a model: prepared tensor, raw pixels, encoded bytes.

    float32   [N, H, W, 3]   pixels scaled by the caller as the network wants them
    uint8     [N, H, W, 3]   pixels 0..255; the graph scales
    bytes     [N]            JPEG, PNG, GIF or BMP files; the graph decodes, resizes and scales

The graph's resize is Pillow's default one (bicubic, antialiased, rounded to whole pixel values), so that the
three forms agree but for rounding. It does not apply EXIF orientation: TensorFlow has no operation for that.
"""

from typing import Any

from model_zoo.image_model import ImageModel, InputForm, Scaling


def left_to_caller(scaling: Scaling, form: InputForm) -> Scaling:
    """Return the scaling that whoever prepares the tensor must apply: none where the graph does it."""
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

    def decode_one(file: Any) -> Any:
        pixels = tf.io.decode_image(file, channels=3, expand_animations=False)
        resized = tf.image.resize(pixels, [model.height, model.width], method="bicubic", antialias=True)
        return tf.clip_by_value(tf.round(resized), 0.0, 255.0)

    pixels = tf.map_fn(decode_one, files, fn_output_signature=tf.float32)
    return tf.ensure_shape(pixels, [model.batch, model.height, model.width, 3])


def scale(pixels: Any, scaling: Scaling) -> Any:
    """Scale float32 pixel values 0..255 with the arithmetic of keras.applications' preprocess_input."""
    if scaling == "unit":
        return pixels / 255.0
    if scaling == "tf":
        return pixels / 127.5 - 1.0
    return pixels
