import numpy as np

from model_zoo import digits


def test_the_split_holds_out_360_images_of_every_class_and_trains_on_none_of_them() -> None:
    split = digits.split()
    assert split.held_out_images.shape == (360, 8, 8)
    assert split.train_images.shape == (1437, 8, 8)
    assert np.bincount(split.held_out_labels).min() >= 35
    trained_on = {image.tobytes() for image in split.train_images}
    assert not [image for image in split.held_out_images if image.tobytes() in trained_on]


def test_the_split_is_the_same_each_time() -> None:
    first, second = digits.split(), digits.split()
    np.testing.assert_array_equal(first.held_out_images, second.held_out_images)
    np.testing.assert_array_equal(first.held_out_labels, second.held_out_labels)


def test_grey_values_use_the_whole_range() -> None:
    grey = np.array([[[0.0, 1.0, 8.0, 16.0]]])
    np.testing.assert_array_equal(digits.as_pixels(grey), [[[0, 16, 128, 255]]])
