"""Opset v20: the operators of Knet's Ops20, and layernorm, forward and backward side by side.

Arrays are in C order where Knet's are in Fortran order, so the bytes are the same and the axes reversed: images are
(N, C, *spatial), scores (instances, classes), and Knet's `dims` is `axis` here.  Classes count from 0; a negative label
masks its instance.  A convolution and its two transposes are each other's derivatives, and so are the poolings and
theirs, so every operator differentiates to any order.  float32 stays float32.

The files, each importing only from those above it:

    activations      relu elu selu sigm, gradients relu_x elu_x sigm_x, softplus invx
    dropouts         dropout
    matrices         mat bmm
    softmaxes        softmax logsoftmax=logp logsumexp
    losses           nll accuracy zeroone bce logistic
    convolution      conv4 and its transposes, deconv4
    pooling          pool and its transposes, unpool
    normalisation    batchnorm bnmoments bnparams, layernorm
    recurrence       one recurrent layer in one direction, over all its steps
    recurrent        RNN rnninit rnnforw rnnparam rnnparams
    fused            conv_bias_act matmul_bias_act, and which chains of operators they replace
"""

from __future__ import annotations

from .activations import elu, elu_x, invx, relu, relu_x, selu, sigm, sigm_x, softplus
from .convolution import conv4, conv4_w, conv4_x, deconv4
from .dropouts import dropout, masked_dropout
from .fused import conv_bias_act, matmul_bias_act
from .losses import accuracy, bce, logistic, nll, zeroone
from .matrices import bmm, mat
from .normalisation import batchnorm, bnmoments, bnparams, layernorm, normalise, normalise_rows, normalise_rows_x, normalise_x
from .pooling import max_pool, max_pool_at, max_pool_x, mean_pool, mean_pool_x, pool, unpool
from .recurrence import recurrence, recurrence_grads
from .recurrent import RNN, rnnforw, rnninit, rnnparam, rnnparams
from .softmaxes import logp, logsoftmax, logsumexp, softmax

__all__ = [
    "RNN",
    "accuracy",
    "batchnorm",
    "bce",
    "bmm",
    "bnmoments",
    "bnparams",
    "conv4",
    "conv4_w",
    "conv4_x",
    "conv_bias_act",
    "deconv4",
    "dropout",
    "elu",
    "elu_x",
    "invx",
    "layernorm",
    "logistic",
    "logp",
    "logsoftmax",
    "logsumexp",
    "masked_dropout",
    "mat",
    "matmul_bias_act",
    "max_pool",
    "max_pool_at",
    "max_pool_x",
    "mean_pool",
    "mean_pool_x",
    "nll",
    "normalise",
    "normalise_rows",
    "normalise_rows_x",
    "normalise_x",
    "pool",
    "recurrence",
    "recurrence_grads",
    "relu",
    "relu_x",
    "rnnforw",
    "rnninit",
    "rnnparam",
    "rnnparams",
    "selu",
    "sigm",
    "sigm_x",
    "softmax",
    "softplus",
    "unpool",
    "zeroone",
]
