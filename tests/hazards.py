"""What went wrong in other engines, which test guards against each, and the requests that show it.

`GUARDS` lists kinds of faults that people reported against convolution in browsers and inference
engines, with the tests that fail where one comes back; `tests/mutants.py` proves it of many by
putting the fault in. `CASES` are the requests of tests/browser/test_hazards.py: every variant that
can serve one runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CASES", "GUARDS", "HALF", "HazardCase"]


@dataclass(frozen=True)
class HazardCase:
    """Shapes and attributes of a request; bias and residual where they are given."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    bias: bool = False
    z: bool = False
    transposed: bool = False

    @property
    def name(self) -> str:
        given = {**self.attributes, "bias": self.bias, "z": self.z}
        return f"{self.x} {self.w} " + " ".join(f"{k}={v}" for k, v in given.items() if v)


Case = HazardCase
LEAKY = {"activation": "LeakyRelu", "activation_params": [0.25]}

PADDING = [
    *(Case((2, c, 9, 10), (5, c, 3, 3), {"pads": [1, 0, 2, 3]}) for c in (3, 8)),
    Case((1, 8, 17, 18), (34, 8, 3, 3), {"pads": [3, 1, 0, 2], "strides": [2, 1]}, bias=True),
    Case((1, 4, 9, 10), (4, 1, 3, 3), {"pads": [0, 2, 1, 3], "group": 4}),
    Case((1, 8, 9, 10), (8, 4, 3, 5), {"pads": [2, 1, 0, 3], "group": 2}),
    Case((2, 5, 21), (6, 5, 4), {"pads": [2, 1]}),
    Case((1, 3, 5, 6, 7), (4, 3, 2, 3, 3), {"pads": [1, 0, 2, 0, 1, 1]}),
    # A window that lies in the padding alone.
    Case((1, 2, 3, 3), (3, 2, 2, 2), {"pads": [4, 3, 0, 5]}, bias=True, z=True),
]

SAME = [
    Case(x, w, {"auto_pad": auto, **more})
    for auto in ("SAME_UPPER", "SAME_LOWER")
    for x, w, more in (
        ((1, 3, 9, 10), (4, 3, 2, 4), {}),
        ((2, 4, 8, 9), (33, 4, 3, 3), {"strides": [2, 2]}),
        ((1, 3, 9, 8), (3, 3, 4, 2), {"strides": [2, 3], "dilations": [1, 3]}),
        ((1, 3, 5, 6), (2, 3, 3, 3), {"strides": [20, 7]}),
        ((1, 3, 9, 9), (2, 3, 1, 2), {"strides": [3, 3]}),
        ((1, 6, 9, 10), (6, 1, 4, 4), {"group": 6, "strides": [1, 2]}),
        ((1, 5, 19), (6, 5, 4), {"strides": [2]}),
        ((1, 2, 5, 4, 6), (3, 2, 2, 2, 3), {"strides": [1, 1, 2]}),
    )
]

ONE_DIMENSION = [
    Case((2, 6, 23), (8, 6, 5), {"dilations": [2], "strides": [3], "pads": [3, 1]}, z=True),
    Case((1, 6, 23), (9, 2, 3), {"group": 3, "dilations": [3]}, bias=True, z=True),
    Case((2, 4, 40), (4, 1, 9), {"group": 4, "strides": [2], "pads": [4, 4]}, bias=True),
    Case((1, 7, 90), (40, 7, 3), {"pads": [0, 2]}, z=True),
    Case((1, 7, 90), (40, 7, 3), {"dilations": [2], "strides": [3], "pads": [0, 2]}, bias=True),
]

EPILOGUE = [
    Case(x, w, {**LEAKY, **more}, bias, z)
    for x, w, more in (
        ((2, 6, 9, 9), (8, 3, 3, 3), {"group": 2}),
        ((2, 6, 9, 9), (12, 1, 3, 3), {"group": 6, "pads": [1] * 4}),
        ((1, 9, 11, 11), (33, 9, 3, 3), {}),
        ((2, 9, 7, 9), (33, 9, 1, 1), {}),
        ((2, 6, 30), (9, 2, 3), {"group": 3}),
        ((1, 4, 4, 5, 6), (6, 2, 2, 2, 2), {"group": 2}),
    )
    for bias, z in ((False, True), (True, True))
]

# Reads past the end of a tile, of a row, of K.
TILES = [
    *(Case((1, c, 7, 9), (33, c, 1, 1), bias=True) for c in (37, 104)),
    Case((2, 40, 6, 7), (31, 40, 3, 3), {"pads": [1] * 4}),
    Case((1, 520, 5, 5), (65, 520, 1, 1)),
    Case((1, 104, 9, 8), (63, 104, 3, 3), {"strides": [2, 2]}, z=True),
    Case((1, 40, 65), (65, 40, 3), {"pads": [1, 1]}),
]

# Fast paths beside their thresholds.
VARIANTS = [
    # As wide as a fast path wants, but only at the input; dilation and stride that differ.
    *(
        Case((1, 8, 40, width), (8, 1, 3, 3), {"group": 8, "strides": [s, s], "dilations": [d, d]})
        for width, s, d in ((41, 1, 2), (66, 2, 1), (66, 2, 3), (67, 3, 2), (19, 1, 4))
    ),
    Case((1, 5, 12, 13), (10, 1, 3, 3), {"group": 5, "pads": [1] * 4}, bias=True),
    Case((2, 5, 2, 1), (6, 5, 1, 1)),
    Case((2, 5, 1, 1), (6, 5, 1, 1), bias=True, z=True),
    Case((2, 5, 2, 1), (6, 5, 2, 1)),
    Case((1, 96, 130), (96, 48, 128), {"group": 2, "pads": [64, 63]}),
    *(Case((1, 3 * c, 9, 10), (6, c, 3, 3), {"group": 3, "pads": [1] * 4}) for c in (5, 7)),
    *(Case((1, c, 20, 20), (32, c, 3, 3), {"strides": [2, 2], "pads": [1] * 4}) for c in (9, 12)),
    Case((1, 5, 5, 6, 7), (7, 5, 3, 3, 3), {"strides": [1, 2, 1], "pads": [1] * 6}, bias=True),
    Case((1, 2, 30, 31), (3, 2, 13, 11), {"pads": [6, 5, 6, 5]}, z=True),
    Case((1, 8, 11, 30), (8, 4, 3, 3), {"group": 2, "strides": [2, 3], "dilations": [1, 2]}),
    # Tiles that end in the middle of an image, of a group.
    Case((3, 16, 6, 6), (40, 16, 1, 1), bias=True, z=True),
    Case((2, 32, 5, 4), (24, 16, 1, 1), {"group": 2}),
    Case((5, 8, 12), (9, 8, 1)),
]

# Blocks of rows and columns, of windows that are loaded as vec4s where rows have whole ones.
DEPTHWISE = [
    # Smaller than a block, and larger; where the window begins and ends within a vec4.
    *(
        Case((2, 3, height, width), (3, 1, 3, 3), {"group": 3, "pads": [1, left, 1, 2]}, bias=True)
        for height, width, left in (
            *((1, 1, 1), (2, 3, 0), (9, 4, 1), (3, 5, 2), (4, 8, 3)),
            *((7, 12, 0), (5, 16, 4), (6, 21, 5), (3, 24, 2)),
        )
    ),
    # A kernel larger than the input.
    Case((1, 4, 2, 4), (4, 1, 7, 7), {"group": 4, "pads": [3] * 4}, z=True),
    Case((1, 5, 3, 5), (5, 1, 5, 9), {"group": 5, "pads": [2, 4, 3, 5]}),
    # Rows are shared where stride and dilation agree.
    Case((1, 6, 13, 16), (6, 1, 3, 3), {"group": 6, "strides": [2, 2], "dilations": [2, 2]}, True),
    Case((1, 6, 13, 16), (6, 1, 3, 3), {"group": 6, "strides": [2, 1], "pads": [1] * 4}, z=True),
    Case((1, 6, 9, 20), (6, 1, 5, 5), {"group": 6, "strides": [1, 3], "dilations": [1, 2]}),
    Case((2, 3, 9, 12), (6, 1, 3, 4), {"group": 3, "pads": [1, 2, 1, 1]}, bias=True),
    Case((2, 1, 9, 12), (1, 1, 5, 5), {"pads": [2] * 4}),
    Case((2, 3, 37), (3, 1, 9), {"group": 3, "pads": [4, 4]}, bias=True, z=True),
    Case((1, 3, 4, 5, 8), (3, 1, 3, 3, 3), {"group": 3, "pads": [1, 2, 1, 0, 1, 2]}, bias=True),
    Case((1, 3, 5, 5, 7), (3, 1, 2, 3, 3), {"group": 3, "dilations": [2, 1, 1]}, z=True),
]

# Axes longer than what f16 counts exactly, 2048, and than its largest number, 65504.
LONG = [
    Case((1, 1, 1, 70001), (1, 1, 1, 1)),
    Case((1, 2, 5001), (2, 2, 3), {"pads": [1, 1]}),
    Case((1, 2101, 3, 1), (2, 2101, 1, 1)),
    Case((1, 2, 2, 2), (2101, 2, 1, 1), bias=True),
    Case((1, 1, 260, 257), (1, 1, 3, 3)),
]

# Sums that f16 cannot hold on the way, however they are ordered.
SUMS = [
    Case((1, 40000, 1, 1), (2, 40000, 1, 1)),
    Case((1, 6000, 3, 3), (2, 6000, 3, 3)),
    Case((1, 14000, 3), (3, 14000, 3)),
    Case((1, 12000, 3, 4), (4, 6000, 3, 3), {"group": 2}),
    Case((1, 2, 60, 80), (4, 1, 60, 75), {"group": 2}),
    Case((1, 2500, 2, 3, 3), (2, 2500, 2, 3, 3)),
]

CASES: Mapping[str, list[HazardCase]] = {
    "padding": PADDING,
    "same": SAME,
    "one-dimension": ONE_DIMENSION,
    "epilogue": EPILOGUE,
    "tiles": TILES,
    "variants": VARIANTS,
    "depthwise": DEPTHWISE,
    "long": LONG,
    "sums": SUMS,
}
# The kinds that run in f16 too: where indices or sums could be f16 numbers, or loads are of another
# size.
HALF = ("depthwise", "long", "sums")

HERE, CONTRACT = "tests/browser/test_hazards.py::", "tests/contract/test_hazards.py::"
REQUEST = "tests/contract/test_request.py::"
NUMBERS = "tests/browser/test_numbers.py::"
EXECUTION = "tests/browser/test_execution.py::"
OPERANDS = "tests/contract/test_operands.py::"
TENSOR = "tests/browser/test_tensor.py::"
DEVICE = "tests/browser/test_device.py::"
SELECTION = "tests/contract/test_selection.py::"
HOSTILE = "tests/browser/test_hostile.py::"
TRANSPOSED = "tests/browser/test_convtranspose.py::"

GUARDS: Mapping[str, tuple[str, ...]] = {
    # Shapes and padding.
    "four different pads, with channels a multiple of 4 and not": (
        HERE + "test_case[padding]",
        CONTRACT + "test_padding_has_one_source",
    ),
    "odd SAME totals made symmetric; UPPER and LOWER swapped": (
        HERE + "test_case[same]",
        CONTRACT + "test_padding_has_one_source",
    ),
    "pads computed a second time, unlike the shape's": (
        CONTRACT + "test_padding_has_one_source",
        HERE + "test_case[same]",
    ),
    "SAME with a stride; a stride beyond the input": (HERE + "test_case[same]",),
    "wrong pads, strides, dilations, kernel extents, ranks, channels, bias": (
        REQUEST + "test_refused",
        "tests/browser/test_sweep.py::test_random_mistakes",
        "tests/contract/test_hostile.py::test_any_value",
        HOSTILE + "test_misuse_is_refused_by_name",
    ),
    "1-D lifted to 2-D in part: attribute, residual, message": (
        HERE + "test_case[one-dimension]",
        CONTRACT + "test_messages_keep_the_callers_dimensions",
    ),
    # Bias, residual, activation.
    "z after the activation, within its group, without bias; activation of the first group only": (
        HERE + "test_case[epilogue]",
    ),
    "the residual's memory reused for the output; z and x one tensor": (
        HERE + "test_operands_are_left_as_they_are",
        EXECUTION + "test_out_is_written_and_checked",
    ),
    "a missing bias read from a stale buffer": (HERE + "test_requests_that_differ_in_one_thing",),
    # Numbers.
    "f16 accumulation": (
        NUMBERS + "test_halves_are_summed_in_f32",
        HERE + "test_half[sums]",
    ),
    "f16 index arithmetic": (HERE + "test_half[long]",),
    "WGSL that only one variant, activation or dtype has and that does not compile": (
        "tests/browser/test_wgsl.py::test_every_shader_compiles",
    ),
    "infinity as a WGSL constant": (
        CONTRACT + "test_no_infinity_in_wgsl",
        NUMBERS + "test_activations",
    ),
    "slack times zero, where the slack holds NaN": (
        HERE + "test_poisoned_scratch",
        HERE + "test_not_a_number_stays_with_its_channel_and_image",
        NUMBERS + "test_nan_and_infinity_stay_in_their_windows",
        EXECUTION + "test_results_do_not_depend_on_what_pooled_buffers_held",
    ),
    "loops over K that run past its end": (
        HERE + "test_case[tiles]",
        HERE + "test_not_a_number_stays_with_its_channel_and_image",
    ),
    "NaN tests folded away; NaN that spreads": (
        CONTRACT + "test_nan_is_told_by_its_bits",
        NUMBERS + "test_activations",
        NUMBERS + "test_nan_and_infinity_stay_in_their_windows",
    ),
    # Variants.
    "fast paths by the wrong width, without dilation, with another stride": (
        HERE + "test_case[variants]",
    ),
    "depthwise multipliers; 1x1 and 2x1 images; long kernels in groups; 5, 7, 9, 12 channels": (
        HERE + "test_case[variants]",
    ),
    "vec4s of a row past its end or before its start; blocks that an image does not fill": (
        HERE + "test_case[depthwise]",
        HERE + "test_half[depthwise]",
    ),
    "3-D in f16": (HERE + "test_half[sums]",),
    "a second run with the same resident operands that differs": (HERE + "test_case[variants]",),
    # Limits and life.
    "more than 65535 workgroups in a dimension": (
        HERE + "test_folded_grids",
        CONTRACT + "test_plans_stay_within_the_device",
    ),
    "scratch over the binding limit; a device with WebGPU's default limits": (
        CONTRACT + "test_plans_stay_within_the_device",
        CONTRACT + "test_large_tiles_stay_within_the_device",
        HERE + "test_a_device_with_default_limits",
    ),
    "tensors over the binding limit": (
        "tests/contract/test_splitting.py::test_the_parts_make_the_whole",
        "tests/browser/test_splitting.py::test_parts_are_the_whole",
    ),
    "f16 tensors with an odd number of elements": (
        TENSOR + "test_halves_round_trip_with_odd_counts",
        EXECUTION + "test_halves_with_an_odd_count",
    ),
    "a cache key that lacks something": (
        CONTRACT + "test_what_differs_in_one_thing_has_another_kernel",
        HERE + "test_requests_that_differ_in_one_thing",
        HERE + "test_dtypes_that_take_turns",
        HERE + "test_one_prepared_object_serves_many_requests",
    ),
    "an empty run before a real one": (HERE + "test_empty_before_real",),
    "two runs at once, one of them failing": (
        EXECUTION + "test_one_failing_harms_no_other",
        EXECUTION + "test_calls_keep_their_order",
    ),
    "a lost device that yields zeros": (
        DEVICE + "test_a_lost_device_is_an_error_and_then_replaced",
    ),
    "an error that drops the submission and returns stale data": (
        EXECUTION + "test_a_gpu_error_is_told_not_swallowed",
        EXECUTION + "test_a_shader_error_names_template_and_line",
    ),
    "memory or proxies that grow with runs, failing ones too": (
        EXECUTION + "test_thousands_of_calls_leave_memory_flat",
        HERE + "test_mixed_calls_leave_memory_flat",
        HOSTILE + "test_cancelled_anywhere",
        HOSTILE + "test_cancelled_between_submission_and_result",
        HOSTILE + "test_what_goes_wrong_in_the_callers_own_code",
        EXECUTION + "test_a_batch_is_one_submission",
    ),
    # Host side.
    "views, byte orders, dtypes, scalars, lists": (
        OPERANDS + "test_any_numpy_view",
        OPERANDS + "test_buffers_with_a_shape",
        OPERANDS + "test_dtypes_must_agree",
        OPERANDS + "test_everything_else_is_refused_with_the_remedy",
        "tests/browser/test_operands.py::test_numpy_views_and_byte_orders",
    ),
    "attributes as NumPy integers, tuples, arrays, bytes": (REQUEST + "test_output_shape",),
    "a view into memory that moves or changes": (
        EXECUTION + "test_operands_may_change_after_the_call",
        DEVICE + "test_operands_may_change_while_the_device_opens",
    ),
    "no Float16Array; no run_sync": (
        TENSOR + "test_reading_for_javascript",
        CONTRACT + "test_nothing_needs_stack_switching",
    ),
    # Transposed.
    "auto_pad, output_padding, stride with dilation, output_shape, odd channels": (
        "tests/contract/test_convtranspose.py::test_the_reference_agrees_with_onnxruntime",
        TRANSPOSED + "test_random_requests",
        TRANSPOSED + "test_onnx",
    ),
    # Oracles.
    # Outputs are NaN before, variants are pinned.
    "zeros, stale data and silent fallbacks that look like success": (
        SELECTION + "test_a_pinned_variant_runs_or_says_which_guard_failed",
        SELECTION + "test_the_same_choice_as_a_naive_reading",
        HERE + "test_case[padding]",
        CONTRACT + "test_every_guard_exists",
    ),
}
