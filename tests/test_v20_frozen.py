"""What opset v20 does, written down: values, gradients, dtypes and signatures of its public names.

The opset is released, so this file doesn't change with it: a case that fails shows a change of behaviour that users would meet, and it
is the code that must go back.  What is thought of later goes into a new opset.  Only these changes are in order here: a case or a name
that was missing, and the correction of a number that is shown to be wrong by the function's own formula.

Results are written to 12 digits.  Gradients are those of <y, cotangent(y.shape)>, one for each input.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, NamedTuple

import numpy as np
import pytest

import autotape as at
import autotape.testing
from autotape import backend, random
from autotape.opsets import v20

BACKENDS = ["numpy", "strict"] if backend.get() == "numpy" else [backend.get()]


def numbers(text: str, *shape: int) -> np.ndarray:
    return np.array(text.split(), float).reshape(shape)


def cotangent(shape: tuple[int, ...]) -> np.ndarray:
    """-1, 0.5, 2, -0.5, 1, -1, ...: what each result is multiplied by before it is summed."""
    return np.resize([-1, 0.5, 2, -0.5, 1], shape)


INPUTS = {
    "x6": numbers("-2 -0.75 -0.125 0.25 1 3", 6),
    "x23": numbers("1 -0.5 2 0.25 0.75 -1", 2, 3),
    "image": numbers("0.5 -1 2 1.5 0 -0.5 3 1 -2 0.25 0.75 -1.5 1 2.5 -0.25 -3", 1, 1, 4, 4),
    "images": numbers("1 -2 0.5 3 0 -1.5 2 0.25 -0.75 1.5 -1 2.5 0.5 -0.5 -3 1.25 2 0.75", 1, 2, 3, 3),
    "line": numbers("1 -0.5 2 3 -1", 1, 1, 5),
    "solid": numbers("1 0.5 -1 2 0 -0.25 3 1.5", 1, 1, 2, 2, 2),
    "w": numbers("1 -0.5 0.25 2", 1, 1, 2, 2),
    "w2": numbers("1 -0.5 0.25 2 0 1.5 -1 0.75", 2, 1, 2, 2),
    "w1d": numbers("0.5 -1", 1, 1, 2),
    "w3d": numbers("1 -0.5 2 0.25 0 1.5 -1 0.75", 1, 1, 2, 2, 2),
    "b": numbers("0.5 -0.25", 2, 1, 1),
    "a": numbers("1 2 -1 0.5 0 3", 1, 2, 3),
    "c": numbers("1 0 -2 1 0.5 2", 1, 3, 2),
    "pooled": numbers("1 -0.5 2 3", 1, 1, 2, 2),
    "batch": numbers("1 -2 0.5 3 0 -1", 3, 2),
    "params": numbers("2 0.5 -1 0.25", 4),
    "steps": numbers("1 -0.5 0.25 2", 2, 1, 2),
    "packed": numbers("1 -0.5 0.25 2 -1 0.75", 3, 2),
} | {name: np.resize([0.5, -0.25, 0.75, 0, -0.5, 1, -1], n) for name, n in (("w_rnn", 12), ("w_lstm", 48), ("w_gru", 36), ("w_deep", 56))}
MEAN, VAR = [0.5, -0.25], [2.0, 0.5]
LABELS = [2, -1]  # the second is masked


def recurrent(w: Any, x: Any, batch_sizes: Any = None, **options: Any) -> Any:
    return v20.rnnforw(v20.rnninit(2, 2, **options)[0], w, x, batch_sizes=batch_sizes)[0]


def function(name: str) -> Any:
    """A name of v20, or what is made of one so that it takes arrays and gives one."""
    return MADE.get(name) or getattr(v20, name)


MADE = {
    "batchnorm in training": lambda x, params=None, **options: v20.batchnorm(x, None, params, training=True, **options),
    "batchnorm by moments": lambda x, params=None: v20.batchnorm(x, v20.bnmoments(mean=MEAN, var=VAR), params, training=False),
    "normalise, mean": lambda x: v20.normalise(x)[1],
    "normalise, var": lambda x: v20.normalise(x)[2],
    "normalise_rows, mean": lambda x: v20.normalise_rows(x)[1],
    "normalise_rows, var": lambda x: v20.normalise_rows(x)[2],
    "nll, sum": lambda scores, **options: v20.nll(scores, average=False, **options)[0],
    "rnnforw": recurrent,
    "nll of a model": lambda x: v20.nll(lambda x: 2 * x, [(x, [0, 1]), (x[:1], [2])]),
}


class Case(NamedTuple):
    name: str
    inputs: str
    options: dict[str, Any]
    shape: tuple[int, ...]
    y: str
    gradient: str
    second: str = ""  # the gradient in the second input
    third: str = ""

    def __str__(self) -> str:
        return "-".join([self.name.replace(" ", "_"), self.inputs.replace(" ", ","), *map(str, self.options)])


CASES = [
    Case(
        "relu", "x6", {}, (6,),
        "0 0 0 0.25 1 3",
        "0 0 0 -0.5 1 -1",
    ),
    Case(
        "elu", "x6", {}, (6,),
        "-0.864664716763 -0.527633447259 -0.117503097415 0.25 1 3",
        "-0.135335283237 0.236183276371 1.76499380517 -0.5 1 -1",
    ),
    Case(
        "selu", "x6", {}, (6,),
        "-1.5201664686 -0.927632015835 -0.206582118114 0.262675246839 1.05070098736 3.15210296207",
        "-0.237932872252 0.415233662506 3.10303444547 -0.525350493678 1.05070098736 -1.05070098736",
    ),
    Case(
        "sigm", "x6", {}, (6,),
        "0.119202922022 0.320821300825 0.468790626626 0.562176500886 0.73105857863 0.952574126822",
        "-0.104993585404 0.108947496881 0.498051950027 -0.123067041369 0.196611933241 -0.0451766597309",
    ),
    Case(
        "softplus", "x6", {}, (6,),
        "0.126928011043 0.386871006115 0.632599035317 0.825939419879 1.31326168752 3.04858735157",
        "-0.119202922022 0.160410650412 0.937581253252 -0.281088250443 0.73105857863 -0.952574126822",
    ),
    Case(
        "invx", "x6", {}, (6,),
        "-0.5 -1.33333333333 -8 4 1 0.333333333333",
        "0.25 -0.888888888889 -128 8 -1 0.111111111111",
    ),
    Case(
        "dropout", "x6", dict(p=0.5, seed=3, drop=True), (6,),
        "-4 -1.5 0 0 2 0",
        "-2 1 0 0 2 0",
    ),
    Case(
        "dropout", "x6", dict(p=0.5, drop=False), (6,),
        "-2 -0.75 -0.125 0.25 1 3",
        "-1 0.5 2 -0.5 1 -1",
    ),
    Case(
        "masked_dropout", "x6", dict(p=0.25, seed=1), (6,),
        "-2.66666666667 -1 -0.166666666667 0.333333333333 1.33333333333 0",
        "-1.33333333333 0.666666666667 2.66666666667 -0.666666666667 1.33333333333 0",
    ),
    Case(
        "mat", "images", {}, (1, 18),
        "1 -2 0.5 3 0 -1.5 2 0.25 -0.75 1.5 -1 2.5 0.5 -0.5 -3 1.25 2 0.75",
        "-1 0.5 2 -0.5 1 -1 0.5 2 -0.5 1 -1 0.5 2 -0.5 1 -1 0.5 2",
    ),
    Case(
        "mat", "images", dict(dims=1), (6, 3),
        "1 -2 0.5 3 0 -1.5 2 0.25 -0.75 1.5 -1 2.5 0.5 -0.5 -3 1.25 2 0.75",
        "-1 0.5 2 -0.5 1 -1 0.5 2 -0.5 1 -1 0.5 2 -0.5 1 -1 0.5 2",
    ),
    Case(
        "bmm", "a c", {}, (1, 2, 2),
        "-3.5 0 2 6",
        "-1 2.5 0.5 2 -4.5 0",
        "0 0.25 -2 1 7 -2",
    ),
    Case(
        "bmm", "a a", dict(transB=True), (1, 2, 2),
        "6 -2.5 -2.5 9.25",
        "-0.75 -2 2.5 1.75 4 -3.5",
        "0 -2 7 0.25 1 -2",
    ),
    Case(
        "softmax", "x23", {}, (2, 3),
        "0.187690695824 0.0418794550175 0.510196207828 0.0886588069678 0.146173660883 0.0254011734802",
        "-0.362258908671 -0.0180117057806 0.545866814848 -0.126789588405 0.010219800018 -0.0490264120099",
    ),
    Case(
        "softmax", "x23", dict(axis=1), (2, 3),
        "0.253716181635 0.0566117322405 0.689672086125 0.34068926106 0.561701631408 0.0976091075323",
        "-0.546487873625 -0.0370203284004 0.583508202025 -0.270421383252 0.396702960493 -0.126281577241",
    ),
    Case(
        "logsoftmax", "x23", dict(axis=1), (2, 3),
        "-1.37153903185 -2.87153903185 -0.371539031853 -1.07678447504 -0.576784475036 -2.32678447504",
        "-1.38057427245 0.415082401639 0.965491870813 -0.32965536947 1.2808508157 -0.951195446234",
    ),
    Case(
        "logp", "x23", dict(axis=0), (2, 3),
        "-0.386871006115 -1.50192908135 -0.0485873515737 -1.13687100611 -0.251929081345 -3.04858735157",
        "0.0187680487631 0.165949791762 1.04742587318 -0.0187680487631 -0.165949791762 -1.04742587318",
    ),
    Case(
        "logsumexp", "x23", dict(axis=1), (2,),
        "2.37153903185 1.32678447504",
        "-0.253716181635 -0.0566117322405 -0.689672086125 0.17034463053 0.280850815704 0.0488045537662",
    ),
    Case(
        "logsumexp", "x23", dict(keepdims=True), (1, 1),
        "2.67295990602",
        "-0.187690695824 -0.0418794550175 -0.510196207828 -0.0886588069678 -0.146173660883 -0.0254011734802",
    ),
    Case(
        "nll", "x23", dict(labels=[2, 0]), (),
        "0.724161753444",
        "-0.126858090818 -0.0283058661202 0.155163956938 0.32965536947 -0.280850815704 -0.0488045537662",
    ),
    Case(
        "nll", "x23", dict(labels=LABELS), (),
        "0.371539031853",
        "-0.253716181635 -0.0566117322405 0.310327913875 -0 0 0",
    ),
    Case(
        "nll, sum", "x23", dict(labels=[0, 1, 1], axis=0), (),
        "3.68738743903",
        "0.320821300825 -0.222700138825 -0.952574126822 -0.320821300825 0.222700138825 0.952574126822",
    ),
    Case(
        "nll of a model", "x23", {}, (),
        "0.866929354324",
        "0.508667127287 -0.0078663338692 -0.500800793417 -0.175421662434 0.189821149354 -0.0143994869195",
    ),
    Case(
        "bce", "x6", dict(labels=[0, 1, 1, 0, 1, -1]), (),
        "0.632119831974",
        "-0.0238405844044 0.135835739835 0.106241874675 -0.112435300177 0.053788284274 0",
    ),
    Case(
        "logistic", "x6", dict(labels=[-1, 1, 1, -1, 1, 0]), (),
        "0.632119831974",
        "-0.0238405844044 0.135835739835 0.106241874675 -0.112435300177 0.053788284274 0",
    ),
    Case(
        "conv4", "w image", {}, (1, 1, 3, 3),
        "0.25 1.75 3.875 1.125 0.375 4.375 -1.9375 -0.8125 -1.75",
        "8.375 11.875 9.625 -1.375",
        "-2 0.75 4.125 0.5 -0.5 0.625 -2.25 1.75 1.25 3.125 1 -1.125 -0.25 -0.5 2.25 -0.5",
    ),
    Case(
        "conv4", "w image", dict(mode=1, padding=1, stride=2, alpha=0.5), (1, 1, 3, 3),
        "0.5 1.875 0.1875 -2 -0.21875 0.3125 -0.25 1.3125 -1.5",
        "2.5 1.5 2.125 1.125",
        "-1 0.0625 0.5 0.25 0.125 0.5 -0.25 -0.5 -0.5 0.125 1 -0.125 -0.125 1 -0.5 -0.25",
    ),
    Case(
        "conv4", "w image", dict(dilation=2, padding=((0, 1), (1, 0))), (1, 1, 3, 3),
        "0 3.25 -3.25 2.375 0 -5 0.0625 -3.8125 0.125",
        "-1.375 -2 9.625 -5.375",
        "1 3.75 0.125 0.5 2 -2.125 0.25 -0.25 3.75 -2.875 1 1.875 -0.5 0 1 -1",
    ),
    Case(
        "conv4", "w2 images", dict(group=2), (1, 2, 2, 2),
        "0 -5.375 5.25 -1.25 2.875 -4 2.75 5.625",
        "0.125 0.875 3 4 5 5.625 -9.75 1.75",
        "-2 0.75 0.125 4.5 -1.75 0.375 -1 2.25 -0.5 0.75 -1.75 1 1.875 -0.5 -2 0.75 3 0",
    ),
    Case(
        "conv4", "w1d line", {}, (1, 1, 4),
        "-1.25 1.5 -0.5 -3.5",
        "8 1.25",
        "1 -1 -1.75 1.5 -0.25",
    ),
    Case(
        "conv4", "w3d solid", dict(padding=1, stride=2), (1, 1, 2, 2, 2),
        "1 -0.25 -2 0.5 0 -0.375 -3 1.125",
        "-1 0.25 -2 -1 0 0.25 1.5 3",
        "-1 -0.25 4 -0.125 0 -1.5 -0.5 1.5",
    ),
    Case(
        "deconv4", "w pooled", {}, (1, 1, 3, 3),
        "2 -0.75 -0.125 3.5 7.75 0.25 -1 0.5 3",
        "4 6 -1.5 0.75",
        "-0.625 0 1 0.25",
    ),
    Case(
        "deconv4", "w pooled", dict(mode=1, padding=1, stride=2, alpha=0.5), (1, 1, 2, 2),
        "1 -0.0625 -0.5 1.5",
        "-0.75 2 -0.125 -0.5",
        "-1 0.0625 -0.5 -0.25",
    ),
    Case(
        "deconv4", "w2 images", dict(group=2, dilation=2, padding=1), (1, 2, 3, 3),
        "0 -2.25 0 1.5 -0.25 -1.9375 0 3.75 0 -0.375 -2.75 0.5 0 3.0625 -2 -0.75 -4.5 0",
        "9 -1.5 3.25 -1.625 -2.5 -4.25 0.625 6.125",
        "1 -0.75 -0.5 2.125 -2.25 0 0.25 -1.25 2 0 3 -0.75 1 -1.25 0 0.5 0.5 -0.375",
    ),
    Case(
        "deconv4", "w1d line", dict(stride=2), (1, 1, 10),
        "-1 0.5 0.5 -0.25 -2 1 -3 1.5 1 -0.5",
        "3.75 2",
        "1.25 -2.25 -1.5 0.5 1",
    ),
    Case(
        "conv4_x", "w pooled", dict(x_shape=(1, 1, 4, 4), stride=2), (1, 1, 4, 4),
        "2 0.25 -1 -0.125 -0.5 1 0.25 -0.5 4 0.5 6 0.75 -1 2 -1.5 3",
        "-6 7.75 4.25 -6",
        "-3.375 5.625 -2.25 -3.375",
    ),
    Case(
        "conv4_w", "image pooled", dict(w_shape=(1, 1, 2, 2), stride=2), (1, 1, 2, 2),
        "-5 -0.25 -5.75 -2.25",
        "-0.5 2 0.25 -1 0.5 -1 -0.25 0.5 -1 4 -1.5 6 1 -2 1.5 -3",
        "-1.75 2.5 -0.5 -0.5",
    ),
    Case(
        "conv_bias_act", "w2 images b", dict(act="tanh", group=2), (1, 2, 2, 2),
        "0.46211715726 -0.999883417469 0.999979740018 -0.635148952387 0.989559748613 -0.999593146044 0.986614298151 0.999957110103",
        "0.223565074279 -2.43375434672 2.02039311001 -0.786437767116 0.018775768798 0.0277557766472 -0.029968084276 0.0385330769865",
        "-1.57289546593 -0.19637878177 2.91439338947e-05 0.393385944697 -1.38307156934 -0.0744566502996 -4.05195534566e-05 "
        "0.149227491177 -0.298292904141 0.0155786279439 -0.0213816607118 0.000813542382079 0.041129340894 -0.0143877599835 "
        "-0.000171555908281 0.0199441700124 0.000257333862421 0",
        "-1.08454302226 0.033425630793",
    ),
    Case(
        "conv_bias_act", "w image", dict(act="relu", mode=1), (1, 1, 3, 3),
        "0 3.875 4 0.25 0 0 3.125 0 0",
        "2.5 4.375 7.25 4.625",
        "0 0.5 1.75 -1 -0.5 0.375 1.5 4 0.375 -1.25 0 0 0.125 1 0 0",
    ),
    Case(
        "pool", "image", {}, (1, 1, 2, 2),
        "0.5 3 2.5 0.75",
        "-1 0 0 0 0 0 0.5 0 0 0 -0.5 0 0 2 0 0",
    ),
    Case(
        "pool", "image", dict(window=3, padding=1, stride=1, mode=3, alpha=0.5), (1, 1, 4, 4),
        "0.25 1.5 1.5 1.5 0.25 1.5 1.5 1.5 1.25 1.5 1.5 1.5 1.25 1.25 1.25 0.375",
        "0 0 0 0 0 0 2 0 0 0 -0.5 0 0 1 0 0",
    ),
    Case(
        "pool", "image", dict(window=3, padding=1, stride=2, mode=1), (1, 1, 2, 2),
        "-0.111111111111 0.666666666667 0.138888888889 0.25",
        "-0.111111111111 -0.0555555555556 0.0555555555556 0.0555555555556 0.111111111111 0.111111111111 0 0 0.222222222222 "
        "0.166666666667 -0.0555555555556 -0.0555555555556 0.222222222222 0.166666666667 -0.0555555555556 -0.0555555555556",
    ),
    Case(
        "pool", "image", dict(window=3, padding=1, stride=2, mode=2), (1, 1, 2, 2),
        "-0.25 1 0.208333333333 0.25",
        "-0.25 -0.166666666667 0.0833333333333 0.0833333333333 0.0833333333333 0.111111111111 0.0277777777778 0.0277777777778 "
        "0.333333333333 0.277777777778 -0.0555555555556 -0.0555555555556 0.333333333333 0.277777777778 -0.0555555555556 "
        "-0.0555555555556",
    ),
    Case(
        "pool", "line", dict(window=(3,), stride=2), (1, 1, 2),
        "2 3",
        "0 0 -1 0.5 0",
    ),
    Case(
        "pool", "solid", dict(mode=1), (1, 1, 1, 1, 1),
        "0.84375",
        "-0.125 -0.125 -0.125 -0.125 -0.125 -0.125 -0.125 -0.125",
    ),
    Case(
        "unpool", "pooled", {}, (1, 1, 4, 4),
        "1 1 -0.5 -0.5 1 1 -0.5 -0.5 2 2 3 3 2 2 3 3",
        "-0.5 4 2 -0.5",
    ),
    Case(
        "unpool", "pooled", dict(window=3, padding=1, stride=2, alpha=2), (1, 1, 3, 3),
        "0.5 0.25 -0.25 1.5 2.75 1.25 1 2.5 1.5",
        "0 1.25 1.5 0.75",
    ),
    Case(
        "max_pool", "image", {}, (1, 1, 2, 2),
        "0.5 3 2.5 0.75",
        "-1 0 0 0 0 0 0.5 0 0 0 -0.5 0 0 2 0 0",
    ),
    Case(
        "mean_pool", "image", dict(padding=1, count_padding=False), (1, 1, 3, 3),
        "0.5 0.5 1.5 -1 0.875 -0.25 1 1.125 -3",
        "-1 0.25 0.25 2 -0.25 0.25 0.25 -0.5 -0.25 0.25 0.25 -0.5 0.5 1 1 -0.5",
    ),
    Case(
        "mean_pool_x", "pooled", dict(x_shape=(1, 1, 4, 4)), (1, 1, 4, 4),
        "0.25 0.25 -0.125 -0.125 0.25 0.25 -0.125 -0.125 0.5 0.5 0.75 0.75 0.5 0.5 0.75 0.75",
        "-0.125 1 0.5 -0.125",
    ),
    Case(
        "batchnorm in training", "batch", {}, (3, 2),
        "1.2247081307 -0.925819107824 0 1.38872866174 -1.2247081307 -0.462909553912",
        "-1.63309113042 0.286563269744 3.26588834853 0.0716404454558 -1.63279721811 -0.3582037152",
    ),
    Case(
        "batchnorm in training", "batch params", dict(eps=0.5), (3, 2),
        "0.224744871392 -0.189941345064 -1 0.909912017596 -2.22474487139 0.030029327468",
        "-3.47011046894 0.1407339249 3.26598632371 0.0272006745604 0.204124145232 -0.16793459946",
        "-1.22474487139 -0.659912017596 2 -1",
    ),
    Case(
        "batchnorm in training", "images params", {}, (1, 2, 3, 3),
        "-0.0413036964319 -4.02358064971 -0.705016521979 2.61354760576 -1.36872934753 -3.35986782417 1.28612195466 -1.03687293475 "
        "-2.36429858585 0.577682998722 -0.198408314041 0.888119523828 0.267246473617 -0.0431900514885 -0.819281364252 0.500073867446 "
        "0.732901261275 0.344855604893",
        "-1.77185605252 0.227403959292 2.21177448996 -1.11355758375 0.88570242806 -1.76508810654 0.216575245734 2.21245128456 "
        "-1.10340566479 0.137674326681 -0.441647296465 -0.0341645066975 0.464731422612 -0.294739319326 0.212466895397 -0.479043580823 "
        "-0.0258542212846 0.460576279906",
        "0.0276547010645 0.776091312764 3 4.5",
    ),
    Case(
        "batchnorm by moments", "batch params", {}, (3, 2),
        "-0.292894986574 -0.987424492893 -1 2.54807405823 -1.70710501343 -0.280324782669",
        "-1.41421002685 0.353549855112 2.8284200537 -0.353549855112 1.41421002685 -0.707099710225",
        "-0.707105013426 -2.47484898579 2 -1",
    ),
    Case(
        "batchnorm by moments", "images", {}, (1, 2, 3, 3),
        "0.353552506713 -1.76776253357 0 1.76776253357 -0.353552506713 -1.41421002685 1.06065752014 -0.176776253357 -0.883881266783 "
        "2.47484898579 -1.06064956534 3.88904840624 1.06064956534 -0.353549855112 -3.88904840624 2.12129913067 3.18194869601 "
        "1.41419942045",
        "-0.707105013426 0.353552506713 1.41421002685 -0.353552506713 0.707105013426 -0.707105013426 0.353552506713 1.41421002685 "
        "-0.353552506713 1.41419942045 -1.41419942045 0.707099710225 2.8283988409 -0.707099710225 1.41419942045 -1.41419942045 "
        "0.707099710225 2.8283988409",
    ),
    Case(
        "normalise, mean", "images", {}, (2,),
        "0.277777777778 0.444444444444",
        "-0.111111111111 -0.111111111111 -0.111111111111 -0.111111111111 -0.111111111111 -0.111111111111 -0.111111111111 "
        "-0.111111111111 -0.111111111111 0.0555555555556 0.0555555555556 0.0555555555556 0.0555555555556 0.0555555555556 "
        "0.0555555555556 0.0555555555556 0.0555555555556 0.0555555555556",
    ),
    Case(
        "normalise, var", "images", {}, (2,),
        "2.2700617284 2.59413580247",
        "-0.16049382716 0.506172839506 -0.0493827160494 -0.604938271605 0.0617283950617 0.395061728395 -0.382716049383 "
        "0.00617283950617 0.228395061728 0.117283950617 -0.16049382716 0.228395061728 0.00617283950617 -0.104938271605 -0.382716049383 "
        "0.0895061728395 0.172839506173 0.033950617284",
    ),
    Case(
        "layernorm", "x23", {}, (2, 3),
        "0.162220652719 -1.29776522175 1.13554456903 0.33967997475 1.01903992425 -1.358719899",
        "-1.53682650832 0.614725070803 0.922101437518 -0.792580336852 0.566152103948 0.226428232904",
    ),
    Case(
        "layernorm", "batch params", dict(eps=0.5), (3, 2),
        "0.809068067467 -0.202267016867 -2.74077655956 0.685194139889 0.154700538379 -0.0386751345948",
        "-0.123345550055 0.123345550055 0.358705472878 -0.358705472878 0.962250448649 -0.962250448649",
        "-2.0679603241 -0.310110887566 2 -1",
    ),
    Case(
        "layernorm", "a x6", dict(eps=0.5), (1, 2, 3),
        "-0.214990554975 0.302514167537 3.14530954843 1.144427191 1.58696784409 2.84627032655",
        "1.05329786186 -0.669209379796 -0.384088482066 0.616316236298 -0.535608157735 -0.0807080785629",
        "-0.00888847973766 -0.31763323715 -3.5547901625 -1.5 1.5 1",
    ),
    Case(
        "normalise_rows, mean", "a", {}, (1, 2),
        "0.666666666667 1.16666666667",
        "-0.333333333333 -0.333333333333 -0.333333333333 0.166666666667 0.166666666667 0.166666666667",
    ),
    Case(
        "normalise_rows, var", "a", {}, (1, 2),
        "1.55555555556 1.72222222222",
        "-0.222222222222 -0.888888888889 1.11111111111 -0.222222222222 -0.388888888889 0.611111111111",
    ),

    Case(
        "rnnforw", "w_rnn steps", dict(rnn_type="relu"), (2, 1, 2),
        "0.375 1 0.1875 0.5625",
        "-1 4.75 2.125 -2.125 0.75 2 -0.1875 -0.5 0.5 1.75 0.5 1.75",
        "0.9375 0.375 0.625 -0.5",
    ),
    Case(
        "rnnforw", "w_rnn steps", dict(rnn_type="tanh"), (2, 1, 2),
        "0.358357398351 0.761594155956 -0.0425588203264 0.43003504736",
        "-0.887287641413 4.68594599466 0.8609536553 -1.29648855182 0.715416644741 1.52042943223 -0.146043156901 -0.31037622029 "
        "0.609995478806 0.555302458534 0.609995478806 0.555302458534",
        "0.0289370332566 0.346595503705 0.692537550047 -0.499094373406",
    ),
    Case(
        "rnnforw", "w_lstm steps", dict(rnn_type="lstm"), (2, 1, 2),
        "-0.0684279212764 0.359023501815 0.0330957869055 0.0140190646249",
        "0.0234845286279 0.0605643533017 0.0338676704568 0.057755908185 -0.000467230388068 -0.00373784310454 -0.00568098496713 "
        "-0.045447879737 -0.481746096009 0.258736953877 0.0160341618032 -0.238158822345 0.0347387867108 0.11130663027 0.0524903205894 "
        "-0.033418545314 -0.00232837248845 0.0122163647345 -0.00240511241527 0.012618999167 0.000127886416851 -0.000670986760314 "
        "0.00155495196841 -0.00815842846663 -0.000575242326949 0.00301814684358 0.00741088045455 -0.0388829618479 -0.00414354485404 "
        "0.0217401019302 0.000230992859004 -0.00121195943976 0.0490045113157 0.0602287563674 -0.00186892155227 -0.0227239398685 "
        "-0.475441188054 -0.0651923351768 0.0801538538728 0.0499585376414 0.0490045113157 0.0602287563674 -0.00186892155227 "
        "-0.0227239398685 -0.475441188054 -0.0651923351768 0.0801538538728 0.0499585376414",
        "0.193528903339 -0.421119089376 0.123796739946 -0.020991141674",
    ),
    Case(
        "rnnforw", "w_gru steps", dict(rnn_type="gru"), (2, 1, 2),
        "-0.452777856621 0.212911745383 -0.291719520043 -0.0119984828289",
        "-0.0282969890973 0.00810659816809 0.000187801823098 -0.0192692444779 0.0286501212748 -0.619740024878 -0.0228619950963 "
        "-0.171765010283 0.177840604087 -0.0329229734631 0.00712781035727 -0.111760798446 0.00128735853794 -0.000605360331201 "
        "0.00408572751055 -0.00192124981977 0.128996936412 -0.060658803161 0.0390339274198 -0.0183550973056 -0.00510469635878 "
        "0.00240040407344 0.00821056652719 -0.00386089121701 -0.0304294231139 -0.00657996649442 -0.185025748457 -0.0875194096248 "
        "0.197604367115 -0.031059328443 -0.0304294231139 -0.00657996649442 -0.185025748457 -0.0875194096248 0.147965801329 "
        "-0.00697070522995",
        "-0.103401648208 0.224628277828 0.213883153855 -0.282073435761",
    ),
    Case(
        "rnnforw", "w_deep steps", dict(rnn_type="tanh", num_layers=2, bidirectional=True), (2, 1, 4),
        "0.161416973109 0.55349753081 0.758042690981 -0.963121170741 -0.95289282431 -0.0399822236541 0.966260118827 -0.998178174817",
        "0.119898106696 2.1483823211 1.0042969779 -0.546445258512 1.00998450672 -0.480238972728 -0.020259210856 0.00963308104735 "
        "1.07416539824 -0.218465026602 -0.559418342711 -3.23089857905 0.968081758093 0 -0.136717716777 0 -1.87547676714 0.809398948046 "
        "-0.901091644896 -1.82466767519 0.804266747564 0.51156419248 -0.421451919398 0.944470978003 0.0148495972776 0.0509191522327 "
        "-0.161158935453 -0.552612721719 0.830151487196 -0.411797317023 0.449217361508 0.797562948493 -0.0334873214525 "
        "0.00726488330083 -0.00932722770778 -0.0339360310444 0.822038604509 -0.849192653086 -0.0349774618481 0.0361328573403 "
        "0.89930918003 0.988662823938 0.89930918003 0.988662823938 1.18661869442 -1.79845637227 1.18661869442 -1.79845637227 "
        "-1.85433692966 0.00904464455487 -1.85433692966 0.00904464455487 0.869803389276 -0.0265295161909 0.869803389276 "
        "-0.0265295161909",
        "0.428008238164 0.885689953834 0.466488796199 0.678674958109",
    ),
    Case(
        "rnnforw", "w_lstm packed", dict(rnn_type="lstm", batch_sizes=(2, 1)), (3, 2),
        "-0.0684279212764 0.359023501815 0.0447798881168 -0.0707101940079 0.0239673556979 0.178223518574",
        "0.011849024562 0.0734578613091 0.00687513888251 0.0313813644876 0.0014490713831 -0.00108680353733 0.0213910997204 "
        "-0.0160433247903 -0.613312939717 0.3229673712 0.130833300313 -0.388176676053 0.0203924445476 0.167453372518 0.159090853592 "
        "-0.0692509702783 -0.00107419983812 0.00563604710384 -0.000320038095405 0.00167915663055 9.9156942527e-05 -0.000520250682342 "
        "0.00146374848768 -0.00767990752929 -0.00080538175658 0.00422562856143 0.0103533622827 -0.054321398531 -0.00150033920708 "
        "0.00787188951509 0.00682242439263 -0.0357954859744 0.0698777273491 0.0281055176853 -0.0014490713831 -0.0213910997204 "
        "-0.585055096055 -0.272338087743 0.125009336121 -0.0278832380479 0.0698777273491 0.0281055176853 -0.0014490713831 "
        "-0.0213910997204 -0.585055096055 -0.272338087743 0.125009336121 -0.0278832380479",
        "0.215494642139 -0.499404755157 0.117365745189 -0.0222795962666 0.0026047411328 0.0714094935638",
    ),
]

SIGNATURES = {
    "RNN": "(input_size, hidden_size, *, h=None, c=None, rnn_type='lstm', num_layers=1, bidirectional=False, dropout=0, "
    "skip_input=False, winit=None, binit=None, finit=None, dtype=float32)",
    "accuracy": "(scores, labels, axis=1, average=True)",
    "batchnorm": "(x, moments=None, params=None, eps=1e-05, training=None)",
    "bce": "(scores, labels, average=True)",
    "bmm": "(a, b, transA=False, transB=False)",
    "bnmoments": "(momentum=0.1, mean=None, var=None, meaninit=zeros, varinit=ones)",
    "bnparams": "(channels, dtype=float32)",
    "conv4": "(w, x, padding=0, stride=1, dilation=1, mode=0, alpha=1, group=1)",
    "conv4_w": "(x, v, w_shape=(), padding=0, stride=1, dilation=1, mode=0, alpha=1, group=1)",
    "conv4_x": "(w, v, x_shape=(), padding=0, stride=1, dilation=1, mode=0, alpha=1, group=1)",
    "conv_bias_act": "(w, x, b=None, act='relu', z=None, beta=1, padding=0, stride=1, dilation=1, mode=0, alpha=1, group=1)",
    "deconv4": "(w, x, padding=0, stride=1, dilation=1, mode=0, alpha=1, group=1)",
    "dropout": "(x, p=0.5, *, seed=None, drop=None)",
    "elu": "(x)",
    "elu_x": "(dy, y)",
    "invx": "(x)",
    "layernorm": "(x, params=None, eps=1e-05)",
    "logistic": "(scores, labels, average=True)",
    "logp": "(x, axis=None)",
    "logsoftmax": "(x, axis=None)",
    "logsumexp": "(x, axis=None, keepdims=False)",
    "masked_dropout": "(x, p=0.5, seed=0)",
    "mat": "(x, dims=None)",
    "matmul_bias_act": "(a, b, bias=None, act='relu', z=None)",
    "max_pool": "(x, window=2, padding=0, stride=None)",
    "max_pool_at": "(v, x, m, window=2, padding=0, stride=None)",
    "max_pool_x": "(v, x, m, window=2, padding=0, stride=None)",
    "mean_pool": "(x, window=2, padding=0, stride=None, count_padding=True)",
    "mean_pool_x": "(v, x_shape=(), window=2, padding=0, stride=None, count_padding=True)",
    "nll": "(scores, labels, axis=1, average=True)",
    "normalise": "(x, scale=None, bias=None, eps=1e-05)",
    "normalise_rows": "(x, scale=None, bias=None, eps=1e-05)",
    "normalise_rows_x": "(v, x, mean, inv, scale=None)",
    "normalise_x": "(v, x, mean, inv, scale=None)",
    "pool": "(x, window=2, padding=0, stride=None, mode=0, alpha=1, nan=True)",
    "recurrence": "(x, w, state, cell='lstm', sizes=(), reverse=False, skip=False)",
    "recurrence_grads": "(dy, dfinal, x, w, state, y, gates, inner, cell='lstm', sizes=(), reverse=False, skip=False, with_x=True)",
    "relu": "(x)",
    "relu_x": "(dy, y)",
    "rnnforw": "(r, w, x, h=None, c=None, *, batch_sizes=None)",
    "rnninit": "(input_size, hidden_size, **options)",
    "rnnparam": "(r, layer, id, param, w=None)",
    "rnnparams": "(r, w=None)",
    "selu": "(x)",
    "sigm": "(x)",
    "sigm_x": "(dy, y)",
    "softmax": "(x, axis=None)",
    "softplus": "(x)",
    "unpool": "(x, window=2, padding=0, stride=None, alpha=1)",
    "zeroone": "(scores, labels, axis=1, average=True)",
}


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_and_gradients(case, dtype, name):
    xs = [INPUTS[i].astype(dtype) for i in case.inputs.split()]
    with backend.use(name):
        y, pull = at.vjp(lambda *xs: function(case.name)(*xs, **case.options), *xs)
        gradients = pull(cotangent(case.shape).astype(dtype))
    texts = [case.gradient, case.second, case.third][: len(xs)]
    for found, text, like in zip((y, *gradients), (case.y, *texts), (np.empty(case.shape), *xs), strict=True):
        assert found.dtype == dtype and found.shape == like.shape
        np.testing.assert_allclose(found, numbers(text, *like.shape), *((1e-11, 1e-12) if dtype == np.float64 else (1e-5, 1e-5)))


def test_signatures():
    found = {name: str(inspect.signature(getattr(v20, name))) for name in v20.__all__}
    for name, signature in SIGNATURES.items():
        assert re.sub(r"<(?:class '|function |built-in function )(?:numpy\.)?(\w+).*?>", r"\1", found[name]) == signature, name
    assert set(SIGNATURES) == set(v20.__all__)


def test_counts_and_shares():
    scores, labels = INPUTS["x23"], [2, -1]
    data = [(scores, [2, 0]), (scores[:1], [-1])]
    assert v20.accuracy(scores, labels) == 1.0 and v20.zeroone(scores, [1, 1]) == 0.5
    assert v20.accuracy(scores, [2, 0], average=False) == (1, 2) and v20.zeroone(scores, labels, average=False) == (0, 1)
    assert v20.accuracy(lambda x: x, data) == 0.5 and v20.zeroone(lambda x: -x, data, average=False) == (2, 2)
    assert v20.nll(scores, labels, average=False)[1] == 1 and v20.nll(lambda x: x, data, average=False)[1] == 2
    assert v20.nll(scores, [-1, -1]) == 0.0 and v20.bce(scores[0], [-1, -1, -1]) == 0.0 and v20.logistic(scores[0], [0, 0, 0]) == 0.0
    assert v20.bce(scores[0], [1, -1, 0], average=False)[1] == 2 and v20.logistic(scores[0], [1, 0, -1], average=False)[1] == 2


def test_conventions_at_edges():
    zeros = np.zeros(2)
    slopes = [at.grad(lambda x, f=f: f(x).sum())(zeros)[0] for f in (v20.relu, v20.elu, v20.selu, v20.sigm, v20.softplus)]
    assert slopes == [0, 1, 1.0507009873554805, 0.25, 0.5]
    assert np.isnan(np.asarray(v20.relu(np.array([np.nan])))).all() and v20.logsumexp(np.array([-np.inf])) == -np.inf
    ties = np.ones((1, 1, 2, 2))
    for mode, expected in ((0, [1, 0, 0, 0]), (1, [0.25] * 4), (3, [1, 0, 0, 0])):
        assert at.grad(lambda x, mode=mode: v20.pool(x, mode=mode).sum())(ties).ravel().tolist() == expected
    ties[0, 0, 0, 1] = np.nan
    assert np.isnan(np.asarray(v20.pool(ties))).all() and v20.pool(ties, nan=False) == 1
    assert v20.dropout(zeros) is zeros and v20.dropout(zeros, 0, drop=True) is zeros
    assert v20.dropout(zeros + 1, 1, drop=True).tolist() == [0, 0]
    with random.use(0), at.training():
        assert v20.dropout(np.ones(8), 0.5).tolist() == numbers("0 0 2 2 0 2 2 2", 8).tolist()


def test_moments_and_params():
    moments, x = v20.bnmoments(), INPUTS["batch"]
    v20.batchnorm(x, moments, training=True)
    np.testing.assert_allclose(moments.mean, [0.05, 0], 1e-12, 1e-12)
    np.testing.assert_allclose(moments.var, [0.925, 1.6], 1e-12)  # 0.9 + 0.1 of the unbiased variances 0.25 and 7
    assert moments.state.keys() == {"momentum", "mean", "var"} and moments.momentum == 0.1
    v20.batchnorm(x, moments)
    np.testing.assert_allclose(moments.mean, [0.05, 0], 1e-12, 1e-12)  # only in training
    one = v20.bnmoments()
    v20.batchnorm(x[:1], one, training=True)  # one element a channel
    np.testing.assert_allclose(one.var, [0.9, 0.9], 1e-12)
    assert v20.bnparams(2).tolist() == [1, 1, 0, 0] and v20.bnparams(2).dtype == np.float32 and v20.bnparams(1, float).dtype == float


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: v20.dropout(x, 1.5, drop=True), ValueError),
        (lambda x: v20.dropout(x, "p", drop=True), TypeError),
        (lambda x: v20.mat(x, dims=3), ValueError),
        (lambda x: v20.bmm(x, x), ValueError),
        (lambda x: v20.nll(x, [0, 3]), ValueError),
        (lambda x: v20.nll(x, [0.0, 1.0]), TypeError),
        (lambda x: v20.nll(lambda x: x, []), ValueError),
        (lambda x: v20.bce(x, np.full(x.shape, 2)), ValueError),
        (lambda x: v20.logistic(x, np.full(x.shape, 2)), ValueError),
        (lambda x: v20.conv4(x, x), ValueError),
        (lambda x: v20.conv4(INPUTS["w"], INPUTS["image"], mode=2), ValueError),
        (lambda x: v20.conv4(INPUTS["w"], INPUTS["image"], alpha="a"), TypeError),
        (lambda x: v20.deconv4(x, x), ValueError),
        (lambda x: v20.pool(x), ValueError),
        (lambda x: v20.pool(INPUTS["image"], mode=4), ValueError),
        (lambda x: v20.unpool(INPUTS["image"], alpha=0), ValueError),
        (lambda x: v20.conv_bias_act(INPUTS["w"], INPUTS["image"], act="swish"), ValueError),
        (lambda x: v20.batchnorm(x), ValueError),
        (lambda x: v20.batchnorm(x, INPUTS["params"]), TypeError),
        (lambda x: v20.batchnorm(x, None, INPUTS["params"], training=True), ValueError),
        (lambda x: v20.bnmoments(momentum=2), ValueError),
        (lambda x: v20.layernorm(x, INPUTS["params"]), ValueError),
        (lambda x: v20.layernorm(x[:, :0]), ValueError),
    ],
)
def test_refusals(call, error):
    with pytest.raises(error):
        call(INPUTS["x23"])
