"""Random valid requests, for every sweep: shapes, attributes and which operands are given."""

from hypothesis import strategies as st

from fusedconv.request import ACTIVATIONS


@st.composite
def conv_requests(draw, large=True):
    """`(x_shape, w_shape, keyword arguments)` of a valid FusedConv."""
    n = draw(st.integers(1, 3))
    most = {1: 4000, 2: 130, 3: 20}[n] if large else {1: 40, 2: 14, 3: 7}[n]
    kernels = st.sampled_from([1, 1, 2, 3, 3, 3, 4, 5, 7, 8, 9, 11, 13])
    kernel = [draw(kernels) if n < 3 else draw(st.integers(1, 3)) for _ in range(n)]
    if draw(st.booleans()):
        kernel = [kernel[0]] * n
    per_group = draw(
        st.sampled_from([1, 1, 2, 3, 4, 5, 7, 8, 16, 32, 64, 96] if large else [1, 2, 3, 4, 5, 8])
    )
    group = draw(st.sampled_from([1, 1, 1, 2, 3, 4, 8, 32]))
    out_per_group = draw(
        st.sampled_from([1, 1, 2, 3, 4, 5, 16, 32, 64, 100] if large else [1, 2, 3, 4, 6])
    )
    attributes = {}
    if group > 1:
        attributes["group"] = group
    strides = [draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in range(n)]
    dilations = [draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in range(n)]
    if max(strides) > 1 or draw(st.booleans()):
        attributes["strides"] = strides
    if max(dilations) > 1 or draw(st.booleans()):
        attributes["dilations"] = dilations
    pad = draw(st.sampled_from(["none", "same", "explicit", "auto"]))
    window = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if pad == "same":
        attributes["pads"] = [v // 2 for v in window] * 2
    elif pad == "explicit":
        attributes["pads"] = [draw(st.integers(0, 3)) for _ in range(2 * n)]
    elif pad == "auto":
        attributes["auto_pad"] = draw(st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    size = [v + draw(st.integers(0, most)) for v in window]
    if draw(st.booleans()):
        size = [max(v, 8 * (s // 8)) for v, s in zip(window, size, strict=True)]
    activation = draw(st.sampled_from([None, "Relu", *ACTIVATIONS]))
    if activation:
        attributes["activation"] = activation
        if ACTIVATIONS[activation]:
            count = draw(st.integers(*ACTIVATIONS[activation]))
            attributes["activation_params"] = [0.25, 0.75][:count]
    batch = draw(st.sampled_from([1, 1, 1, 2, 3]))
    arguments = {
        "bias": draw(st.booleans()),
        "z": draw(st.sampled_from([False, False, True])),
        "dtype": draw(st.sampled_from(["float32", "float16"])),
        **attributes,
    }
    x = (batch, group * per_group, *size)
    return x, (group * out_per_group, per_group, *kernel), arguments
