"""Which ATen operator is converted by which rule; any other one becomes a barrier with a warning."""

from __future__ import annotations

from collections.abc import Mapping

from rramalloc.importers.torch import pixelwise, products, views, windows
from rramalloc.importers.torch.lowering import Handler

_RULES: dict[Handler, str] = {
    windows.conv: "conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d conv_transpose3d "
    "_convolution",
    windows.pool: "max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool1d_with_indices "
    "avg_pool1d avg_pool2d avg_pool3d",
    windows.adaptive_pool: "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
    "adaptive_max_pool2d adaptive_max_pool3d _adaptive_avg_pool2d",
    windows.upsample: "upsample_nearest1d upsample_nearest2d _upsample_nearest_exact1d "
    "_upsample_nearest_exact2d upsample_linear1d upsample_bilinear2d upsample_bicubic2d "
    "_upsample_bilinear2d_aa _upsample_bicubic2d_aa",
    windows.pixel_shuffle: "pixel_shuffle",
    windows.pixel_unshuffle: "pixel_unshuffle",
    windows.pad: "constant_pad_nd pad reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d",
    views.permute: "permute transpose t movedim swapaxes swapdims adjoint numpy_T",
    views.reshape: "view reshape _unsafe_view flatten unflatten squeeze unsqueeze squeeze_copy "
    "unsqueeze_copy view_copy reshape_as view_as _reshape_alias",
    views.identity: "clone contiguous to _to_copy alias detach lift_fresh_copy lift_fresh lift type_as "
    "alias_copy detach_copy float half double bfloat16 requires_grad",
    views.dropout: "dropout native_dropout feature_dropout alpha_dropout feature_alpha_dropout",
    views.expand: "expand expand_as expand_copy repeat tile broadcast_to repeat_interleave",
    views.concat: "cat concat concatenate",
    views.stack: "stack",
    views.cut: "slice narrow slice_copy",
    views.pick: "select select_copy",
    views.parts: "chunk split split_with_sizes unbind tensor_split unsafe_chunk unsafe_split",
    views.shuffle: "roll flip index_select gather take_along_dim",
    views.embedding: "embedding",
    products.linear: "linear",
    products.matmul: "matmul mm bmm mv",
    products.addmm: "addmm baddbmm addmv addbmm",
    products.einsum: "einsum",
    products.attention: "scaled_dot_product_attention",
    pixelwise.elementwise: "add sub mul div rsub pow maximum minimum where masked_fill clamp clip clamp_min "
    "clamp_max lerp addcmul addcdiv atan2 fmod remainder floor_divide true_divide multiply divide subtract "
    "eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor __and__ __or__ "
    "fmax fmin hypot heaviside",
    pixelwise.unary("relu"): "relu relu6",
    pixelwise.unary(
        "activation"
    ): "sigmoid tanh gelu silu mish hardtanh hardsigmoid hardswish leaky_relu elu "
    "selu celu softplus softsign softshrink hardshrink tanhshrink log_sigmoid prelu rrelu threshold "
    "rrelu_with_noise exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal abs neg sign "
    "sgn erf erfc sin cos tan asin acos atan sinh cosh asinh acosh atanh floor ceil round trunc frac "
    "logical_not bitwise_not isnan isinf isfinite nan_to_num zeros_like ones_like full_like fill zero "
    "fake_quantize_per_tensor_affine fake_quantize_per_channel_affine dequantize sinc logit positive",
    pixelwise.unary("identity"): "channel_shuffle native_channel_shuffle",
    pixelwise.softmax: "softmax log_softmax _softmax _log_softmax _safe_softmax softmin",
    pixelwise.gate: "glu",
    pixelwise.layer_norm: "layer_norm native_layer_norm rms_norm _fused_rms_norm",
    pixelwise.grid_norm: "group_norm native_group_norm instance_norm",
    pixelwise.batch_norm: "batch_norm native_batch_norm _native_batch_norm_legit _batch_norm_impl_index "
    "_native_batch_norm_legit_no_training _native_batch_norm_legit_functional cudnn_batch_norm",
    pixelwise.reduction: "mean sum amax amin max min std var norm linalg_vector_norm argmax argmin prod any "
    "all logsumexp nansum nanmean std_mean var_mean aminmax median count_nonzero",
    pixelwise.cumulative: "cumsum cumprod logcumsumexp cummax cummin",
    pixelwise.copied: "copy",
}

RULES: Mapping[str, Handler] = {name: rule for rule, names in _RULES.items() for name in names.split()}
"""Rule by operator name, without namespace, overload and the underscore of in-place calls."""
