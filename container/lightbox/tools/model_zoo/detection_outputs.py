"""From a detector's raw predictions to the eight outputs of the TensorFlow 2 detection zoo.

Anchors and box code are those of the published EfficientDet-D1: levels 3 to 7, three scales per octave from
four strides, aspect ratios 1, 2 and 1/2; offsets scaled by 10 and sizes by 5. Boxes are [ymin, xmin, ymax,
xmax] in 0..1.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

SIDE = 640
LEVELS = range(3, 8)
ANCHORS_PER_CELL = 9
ANCHORS = ANCHORS_PER_CELL * sum((SIDE // 2**level) ** 2 for level in LEVELS)
CLASSES = 90
DETECTIONS = 100
# Anchors that enter suppression: the best ones by score. All 76,725 would cost more than the network.
CANDIDATES = 1000
OVERLAP, LOWEST_SCORE = 0.5, 1e-8
# Name and shape of each output; all are float32. The published model has no background class: 90, not 91.
OUTPUTS = {
    "detection_anchor_indices": (1, DETECTIONS),
    "detection_boxes": (1, DETECTIONS, 4),
    "detection_classes": (1, DETECTIONS),
    "detection_multiclass_scores": (1, DETECTIONS, CLASSES),
    "detection_scores": (1, DETECTIONS),
    "num_detections": (1,),
    "raw_detection_boxes": (1, ANCHORS, 4),
    "raw_detection_scores": (1, ANCHORS, CLASSES),
}


def detect(logits: Any, codes: Any) -> dict[str, Any]:
    """Decode and suppress, in the graph.

    `logits` is [1, 76725, 90], `codes` [1, 76725, 4]; all outputs are float32, as published. Each anchor
    competes with its best class; class ids count from 1; places without a detection have score 0.
    """
    import tensorflow as tf

    scores, boxes = tf.sigmoid(logits), decode(codes)
    kept, count = suppress(boxes[0], scores[0])
    present = tf.sequence_mask(count, DETECTIONS, tf.float32)
    rows = tf.gather(scores[0], kept)
    detections = {
        "detection_anchor_indices": tf.cast(kept, tf.float32) * present,
        "detection_boxes": tf.clip_by_value(tf.gather(boxes[0], kept), 0.0, 1.0) * present[:, None],
        "detection_classes": tf.cast(tf.argmax(rows, axis=1), tf.float32) * present + 1.0,
        "detection_multiclass_scores": rows * present[:, None],
        "detection_scores": tf.reduce_max(rows, axis=1) * present,
        "num_detections": tf.cast(count, tf.float32),
    }
    batch_of_one = {name: tf.expand_dims(value, 0) for name, value in detections.items()}
    return batch_of_one | {"raw_detection_boxes": boxes, "raw_detection_scores": scores}


def suppress(boxes: Any, scores: Any) -> tuple[Any, Any]:
    """Suppress within each class; return the anchors kept, int32 [100] best first, and their number."""
    import tensorflow as tf

    best, anchors = tf.math.top_k(tf.reduce_max(scores, axis=1), CANDIDATES)
    classes = tf.argmax(tf.gather(scores, anchors), axis=1, output_type=tf.int32)
    # Boxes of different classes are moved apart, so that one pass suppresses within each class only.
    apart = tf.clip_by_value(tf.gather(boxes, anchors), 0.0, 1.0) + 2.0 * tf.cast(classes, tf.float32)[:, None]
    kept, count = tf.raw_ops.NonMaxSuppressionV4(
        boxes=apart,
        scores=best,
        max_output_size=DETECTIONS,
        iou_threshold=OVERLAP,
        score_threshold=LOWEST_SCORE,
        pad_to_max_output_size=True,
    )
    return tf.reshape(tf.gather(anchors, kept), [DETECTIONS]), count


def decode(codes: Any) -> Any:
    """Turn box codes [1, 76725, 4] (dy, dx, log h, log w against the anchor) into boxes."""
    import tensorflow as tf

    anchors = tf.constant(anchor_boxes())
    dy, dx, dh, dw = tf.unstack(codes, axis=2)
    height, width = tf.exp(dh / 5.0) * anchors[:, 2], tf.exp(dw / 5.0) * anchors[:, 3]
    y = dy / 10.0 * anchors[:, 2] + anchors[:, 0]
    x = dx / 10.0 * anchors[:, 3] + anchors[:, 1]
    return tf.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], axis=2)


def anchor_boxes() -> NDArray[np.float32]:
    """Return float32 [76725, 4]: centre y, centre x, height, width, in 0..1; by level, row, column, shape."""
    pixels = np.concatenate([level_anchors(2**level) for level in LEVELS])
    return (pixels / SIDE).astype(np.float32)


def level_anchors(stride: int) -> NDArray[np.float64]:
    """Return the anchors of one level in pixels, [cells * 9, 4]."""
    sides = 4 * stride * 2 ** (np.arange(3) / 3)
    roots = np.sqrt([1.0, 2.0, 0.5])
    shapes = np.stack([np.outer(1 / roots, sides), np.outer(roots, sides)], axis=-1).reshape(-1, 2)
    middles = (np.arange(SIDE // stride) + 0.5) * stride
    centres = np.stack(np.meshgrid(middles, middles, indexing="ij"), axis=-1).reshape(-1, 2)
    return np.concatenate([np.repeat(centres, ANCHORS_PER_CELL, axis=0), np.tile(shapes, (len(centres), 1))], axis=1)
