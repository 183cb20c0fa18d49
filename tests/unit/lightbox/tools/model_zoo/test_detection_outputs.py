"""EfficientDet's anchors and the selection of boxes from its predictions."""

import numpy as np
import pytest

from lightbox.tools.model_zoo import detection_outputs as detections


@pytest.mark.extended
def test_fewer_candidates_than_places_leave_the_rest_without_score() -> None:
    import tensorflow as tf

    logits = np.full((1, detections.ANCHORS, detections.CLASSES), -100, np.float32)
    same, apart = 30_000, 70_000
    logits[0, same, 4] = 3
    logits[0, same + 1, 4] = 2
    logits[0, same + 1, 7] = 1
    logits[0, apart, 7] = 1
    codes = np.zeros((1, detections.ANCHORS, 4), np.float32)
    # The next anchor decodes to the same place; its size is 2**(1/3) times larger.
    codes[0, same + 1, 2:] = -5 * np.log(2) / 3
    found = detections.detect(tf.constant(logits), tf.constant(codes))
    assert found["num_detections"] == 2
    np.testing.assert_array_equal(found["detection_anchor_indices"][0, :2], [same, apart])
    np.testing.assert_array_equal(found["detection_classes"][0, :3], [5, 8, 1])
    np.testing.assert_allclose(found["detection_scores"][0, :3], [0.9525741, 0.7310586, 0], rtol=1e-6)
    np.testing.assert_array_equal(found["detection_boxes"][0, 2:], np.zeros((98, 4)))
