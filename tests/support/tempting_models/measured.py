"""Signatures for which OpenVINO's results differed from TensorFlow's, or OpenVINO crashed."""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = {
    "boxes": "v3_strict v5 v5_hard",
    "casts": "to_uint8 to_int8",
    "control": "asserted asserted_aside asserted_inside wide_loop python",
    "convolutions": "normalise_local",
    "float_pairs": "floormod truncatemod",
    "integer_arithmetic": (
        "sum max equal power power_negative floordiv floormod truncatediv truncatemod div matmul range_steps"
    ),
    "integers_of_64_bits": "add times sum from_int32 equal less top from_float constant select one_hot unsigned",
    "integers_of_8_and_16_bits": "add_uint8 sub_uint8 times_uint8 mean_uint8 add_int8 abs_int8",
    "layout": "swapped no_inputs slice_at",
    "matrices": "einsum",
    "nan_inside": "relu relu6 maximum minimum clip argmin top_k reduce_min select softmax",
    "picks": (
        "gather gather_64 gather_nd gather_float unique_counts segment_sum unsorted_segment scatter "
        "scatter_update embedding setdiff"
    ),
    "precisions": "double double_inside double_constant double_to_float half_inside bfloat16_inside",
    "rare_errors": "item_at",
    "rare_nan": "softmax_by_hand normalised power",
    "rare_values": "wide_branch",
    "reductions": "log_softmax",
    "state": "count moving hidden",
    "tensorflow_1": "wide_variable",
    "text": "join beside labels_beside labels",
}

DIFFERENT: Mapping[str, frozenset[str]] = {model: frozenset(names.split()) for model, names in _NAMES.items()}
"""By model: with finite inputs of the declared shapes, OpenVINO 2026.4.1."""
