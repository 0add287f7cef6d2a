"""Scripts written for HIPS autograd run after replacing their imports, and leave the same values and gradients behind.

Each script of SCRIPTS and of docs/from-autograd.md runs twice: as autograd's, where that is installed, and as autotape's.
All numbers that they leave behind, gradients and what whole optimisations found among them, must agree.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
import textwrap
import warnings
from functools import partial
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

import autotape as at
from autotape import opsets, tree
from autotape.numpy_protocol import DIFFERENTIABLE, account
from autotape.testing import check_grads

DOC = Path(__file__).parent.parent / "docs" / "from-autograd.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FUNCTIONS = re.compile(r"^\| `autograd\.([\w.]+)`: `([^`]+)` \| `((?:np|scipy|autotape)[\w.]*)`", re.MULTILINE)
ELSEWHERE = re.compile(r"^\| `autograd\.([\w.]+)`: `([^`]+)` \| (?!`(?:np|scipy|autotape)[\w.]*`)", re.MULTILINE)
IMPORTS = {  # autograd's -> autotape's
    "import autograd.numpy as np": "import numpy as np",
    "import autograd.numpy.random as npr": "import numpy.random as npr",
    "from autograd.misc import flatten": "from autotape import flatten",
    "from autograd import ": "from autotape import ",
    "import grad, hessian_vector_product as hvp,": "import grad, hvp,",
}

# Each leaves, beside its results, `loss` and where it starts, for check_grads.
SCRIPTS = {
    "logistic regression": """
        import autograd.numpy as np
        from autograd import grad

        def sigmoid(x):
            return 0.5 * (np.tanh(x / 2.0) + 1)

        def logistic_predictions(weights, inputs):
            return sigmoid(np.dot(inputs, weights))

        inputs = np.array([[0.52, 1.12, 0.77], [0.88, -1.08, 0.15], [0.52, 0.06, -1.30], [0.74, -2.49, 1.39]])
        targets = np.array([True, True, False, True])

        def loss(weights):
            preds = logistic_predictions(weights, inputs)
            label_probabilities = preds * targets + (1 - preds) * (1 - targets)
            return -np.sum(np.log(label_probabilities))

        training_gradient = grad(loss)
        weights = np.array([0.0, 0.0, 0.0])
        for i in range(100):
            weights -= training_gradient(weights) * 0.01
        trained = loss(weights)
        start = (weights,)
    """,
    "derivatives of tanh, one on another": """
        import autograd.numpy as np
        from autograd import elementwise_grad as egrad

        def tanh(x):
            return (1.0 - np.exp(-2 * x)) / (1.0 + np.exp(-2 * x))

        x = np.linspace(-3, 3, 50)
        curves = [tanh(x), egrad(tanh)(x), egrad(egrad(tanh))(x), egrad(egrad(egrad(tanh)))(x)]
        curves += [egrad(egrad(egrad(egrad(np.tanh))))(x), egrad(np.sin)(0.5)]
        loss, start = tanh, (x,)
    """,
    "a series summed until it is small": """
        import autograd.numpy as np
        from autograd import grad

        def sine(x):
            total = term = x
            i = 0
            while np.abs(term) > 1e-12:
                term = -term * x**2 / ((2 * i + 3) * (2 * i + 2))
                total = total + term
                i += 1
            return total

        slopes = [grad(sine)(0.3), grad(grad(sine))(0.3), grad(grad(grad(sine)))(2.0)]
        loss, start = sine, (0.3,)
    """,
    "Newton's method on Rosenbrock": """
        import autograd.numpy as np
        from autograd import grad, hessian, jacobian, value_and_grad

        def loss(x):
            return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

        path = [np.array([-1.2, 1.0, 0.8])]
        for i in range(8):
            value, gradient = value_and_grad(loss)(path[-1])
            path.append(path[-1] - np.linalg.solve(hessian(loss)(path[-1]), gradient))
        curvature = jacobian(grad(loss))(path[1])
        start = (path[0],)
    """,
    "a neural network": """
        import autograd.numpy as np
        import autograd.numpy.random as npr
        from autograd import grad
        from autograd.misc import flatten

        def init_random_params(scale, layer_sizes, rs):
            return [(scale * rs.randn(m, n), scale * rs.randn(n)) for m, n in zip(layer_sizes[:-1], layer_sizes[1:])]

        def logsumexp(x, axis, keepdims):
            top = np.max(x, axis=axis, keepdims=True)
            return top + np.log(np.sum(np.exp(x - top), axis=axis, keepdims=keepdims))

        def predict(params, inputs):
            for W, b in params:
                outputs = np.dot(inputs, W) + b
                inputs = np.tanh(outputs)
            return outputs - logsumexp(outputs, axis=1, keepdims=True)

        def l2_norm(params):
            flattened, _ = flatten(params)
            return np.dot(flattened, flattened)

        rs = npr.RandomState(0)
        images, labels = rs.randn(60, 8), np.eye(3)[rs.randint(3, size=60)]

        def loss(params, iter):
            idx = slice(20 * (iter % 3), 20 * (iter % 3) + 20)
            log_prior = -0.1 * l2_norm(params)
            return -log_prior - np.sum(predict(params, images[idx]) * labels[idx])

        params = init_random_params(0.1, [8, 5, 3], rs)
        start = (params, 0)
        x, unflatten = flatten(params)
        m, v = np.zeros(len(x)), np.zeros(len(x))
        for i in range(12):
            g, _ = flatten(grad(loss)(unflatten(x), i))
            m, v = 0.1 * g + 0.9 * m, 0.01 * g**2 + 0.99 * v
            x = x - 0.01 * m / (np.sqrt(v) + 1e-8)
        trained = unflatten(x)
    """,
    "a recurrent network": """
        import autograd.numpy as np
        import autograd.numpy.random as npr
        from autograd import grad

        def concat_and_multiply(weights, *args):
            cat_state = np.hstack(args + (np.ones((args[0].shape[0], 1)),))
            return np.dot(cat_state, weights)

        def rnn_predict(params, inputs):
            hiddens = np.repeat(params["init hiddens"], inputs.shape[1], axis=0)
            outputs = [concat_and_multiply(params["predict"], hiddens)]
            for input in inputs:
                hiddens = np.tanh(concat_and_multiply(params["change"], input, hiddens))
                outputs.append(concat_and_multiply(params["predict"], hiddens))
            return outputs

        def loss(params, inputs, targets):
            log_lik = 0.0
            for t, logits in enumerate(rnn_predict(params, inputs)[:-1]):
                log_probs = logits - np.log(np.sum(np.exp(logits), axis=1, keepdims=True))
                log_lik += np.sum(log_probs * targets[t])
            return -log_lik / targets.shape[0]

        rs = npr.RandomState(1)
        params = {"init hiddens": rs.randn(1, 4), "change": rs.randn(3 + 4 + 1, 4) * 0.3, "predict": rs.randn(5, 3)}
        inputs = np.eye(3)[rs.randint(3, size=(6, 2))]
        gradient = grad(loss)(params, inputs, inputs)
        start = (params, inputs, inputs)
    """,
    "an LSTM": """
        import autograd.numpy as np
        import autograd.numpy.random as npr
        from autograd import grad

        def sigmoid(x):
            return 0.5 * (np.tanh(x) + 1.0)

        def lstm(W, x, h, c):
            forget, write, read, change = np.split(np.dot(np.concatenate([x, h], axis=1), W), 4, axis=1)
            c = c * sigmoid(forget) + sigmoid(write) * np.tanh(change)
            return sigmoid(read) * np.tanh(c), c

        rs = npr.RandomState(2)
        x = rs.randn(5, 2, 3)

        def loss(params):
            h, c = params["h"] * np.ones((2, 1)), np.zeros((2, 4))
            for x_t in x:
                h, c = lstm(params["W"], x_t, h, c)
            return np.mean(np.vstack([h, c]) ** 2)

        params = {"W": rs.randn(7, 16), "h": rs.randn(4)}
        gradient = grad(loss)(params)
        start = (params,)
    """,
    "a convolutional network": """
        import autograd.numpy as np
        import autograd.numpy.random as npr
        from autograd import grad

        rs = npr.RandomState(3)
        images = rs.randn(4, 1, 9, 9)

        def convolve(x, w):
            n, _, height, width = x.shape
            size = w.shape[-1]
            rows = [x[:, :, i : height - size + 1 + i, j : width - size + 1 + j] for i in range(size) for j in range(size)]
            patches = np.stack(rows, axis=-1)
            return np.einsum("nchwk,ock->nohw", patches, np.reshape(w, w.shape[:2] + (-1,)))

        def max_pool(x):
            n, c, h, w = x.shape
            return np.max(np.max(np.reshape(x[:, :, : h // 2 * 2, : w // 2 * 2], (n, c, h // 2, 2, w // 2, 2)), axis=3), axis=4)

        def loss(weights):
            hidden = images
            for w, b in weights[:-1]:
                hidden = max_pool(np.maximum(convolve(hidden, w) + b[:, None, None], 0.0))
            w, b = weights[-1]
            scores = np.dot(hidden.reshape((len(images), -1)), w) + b
            return np.mean((scores - np.arange(len(images))[:, np.newaxis]) ** 2)

        weights = [(rs.randn(2, 1, 3, 3), rs.randn(2)), (rs.randn(3, 2, 2, 2), rs.randn(3)), (rs.randn(3, 1), rs.randn(1))]
        gradient = grad(loss)(weights)
        start = (weights,)
    """,
    "black-box variational inference": """
        import autograd.numpy as np
        import autograd.numpy.random as npr
        from autograd import grad

        D, num_samples = 2, 50

        def log_density(x):
            mu, log_sigma = x[:, 0], x[:, 1]
            sigma_density = -0.5 * (log_sigma / 1.35) ** 2
            return sigma_density - log_sigma - 0.5 * (mu / np.exp(log_sigma)) ** 2

        def loss(params, t):
            rs = npr.RandomState(t)
            mean, log_std = params[:D], params[D:]
            samples = rs.randn(num_samples, D) * np.exp(log_std) + mean
            entropy = 0.5 * D * (1.0 + np.log(2 * np.pi)) + np.sum(log_std)
            return -(entropy + np.mean(log_density(samples)))

        params = np.concatenate([-np.ones(D), -5 * np.ones(D)])
        start = (params, 0)
        for t in range(30):
            params -= 0.05 * grad(loss)(params, t)
    """,
    "a variational autoencoder": """
        import autograd.numpy as np
        import autograd.numpy.random as npr
        from autograd import grad

        rs = npr.RandomState(4)
        images = (rs.rand(6, 10) > 0.5).astype(float)
        noise = rs.randn(6, 2)

        def loss(params):
            encoder, decoder = params
            hidden = np.dot(images, encoder[0]) + encoder[1]
            mean, log_std = hidden[:, :2], hidden[:, 2:]
            logits = np.dot(mean + np.exp(log_std) * noise, decoder[0]) + decoder[1]
            log_lik = -np.sum(np.logaddexp(0, -logits * (images * 2 - 1)), axis=1)
            kl = -0.5 * np.sum(1 + 2 * log_std - mean**2 - np.exp(2 * log_std), axis=-1)
            return np.mean(kl - log_lik)

        params = [(rs.randn(10, 4) / 4, np.zeros(4)), (rs.randn(2, 10), np.zeros(10))]
        gradient = grad(loss)(params)
        start = (params,)
    """,
    "a fluid": """
        import autograd.numpy as np
        from autograd import value_and_grad

        def project(vx, vy):
            h = 1.0 / vx.shape[0]
            div = -0.5 * h * (np.roll(vx, -1, axis=0) - np.roll(vx, 1, axis=0) + np.roll(vy, -1, axis=1) - np.roll(vy, 1, axis=1))
            p = np.zeros(vx.shape)
            for k in range(6):
                p = (div + np.roll(p, 1, axis=0) + np.roll(p, -1, axis=0) + np.roll(p, 1, axis=1) + np.roll(p, -1, axis=1)) / 4.0
            return vx - 0.5 * (np.roll(p, -1, 0) - np.roll(p, 1, 0)) / h, vy - 0.5 * (np.roll(p, -1, 1) - np.roll(p, 1, 1)) / h

        def advect(f, vx, vy):
            rows, cols = f.shape
            cell_xs, cell_ys = np.meshgrid(np.arange(rows), np.arange(cols))
            center_xs, center_ys = (cell_xs - vx).ravel(), (cell_ys - vy).ravel()
            left, top = np.floor(center_xs).astype(int), np.floor(center_ys).astype(int)
            rw, bw = center_xs - left, center_ys - top
            left, right = np.mod(left, rows), np.mod(left + 1, rows)
            top, bot = np.mod(top, cols), np.mod(top + 1, cols)
            flat = (1 - rw) * ((1 - bw) * f[left, top] + bw * f[left, bot]) + rw * ((1 - bw) * f[right, top] + bw * f[right, bot])
            return np.reshape(flat, (rows, cols))

        n = 8
        target = np.sin(np.arange(n))[:, None] + np.cos(np.arange(n))
        smoke = np.outer(np.hanning(n), np.hanning(n))

        def loss(params):
            vx, vy = np.reshape(params[: n * n], (n, n)), np.reshape(params[n * n :], (n, n))
            f = smoke
            for t in range(3):
                vx, vy = project(advect(vx, vx, vy), advect(vy, vx, vy))
                f = advect(f, vx, vy)
            return np.mean((target - f) ** 2)

        params = np.sin(1.7 * np.arange(2 * n * n) + 0.1) / 3
        value, gradient = value_and_grad(loss)(params)
        start = (params,)
    """,
    "a fixed point": """
        import autograd.numpy as np
        from autograd import grad

        def fixed_point(f, x):
            x_prev, x = x, f(x)
            while np.max(np.abs(x - x_prev)) > 1e-14:
                x_prev, x = x, f(x)
            return x

        def loss(a):
            return np.sum(fixed_point(lambda x: 0.5 * (x + a / x), np.ones(3)))

        a = np.array([2.0, 3.0, 5.0])
        gradient, third = grad(loss)(a), grad(lambda a: grad(lambda a: grad(loss)(a)[0])(a)[0])(a)
        start = (a,)
    """,
    "a hidden Markov model": """
        import autograd.numpy as np
        import autograd.numpy.random as npr
        from autograd import grad

        def logsumexp(x, axis=0):
            top = np.max(x, axis=axis, keepdims=True)
            return np.squeeze(top, axis=axis) + np.log(np.sum(np.exp(x - top), axis=axis))

        def log_partition(natural_params):
            init, pairs, nodes = natural_params
            alpha = init + nodes[0]
            for node in nodes[1:]:
                alpha = logsumexp(alpha[:, None] + pairs, axis=0) + node
            return logsumexp(alpha)

        rs = npr.RandomState(5)
        loss, params = log_partition, (rs.randn(3), rs.randn(3, 3), rs.randn(7, 3))
        expected_counts = grad(log_partition)(params)
        start = (params,)
    """,
    "independent components": """
        import autograd.numpy as np
        import autograd.numpy.random as npr
        from autograd import grad

        rs = npr.RandomState(6)
        data = np.dot(rs.laplace(size=(100, 3)), rs.randn(3, 3))

        def loss(W):
            sources = np.einsum("ij,nj->ni", W, data)
            return np.mean(np.sum(np.log(np.cosh(sources)), axis=1)) - np.linalg.slogdet(W)[1]

        W = np.eye(3)
        start = (W,)
        for i in range(20):
            W = W - 0.1 * np.dot(grad(loss)(W), np.dot(W.T, W))
    """,
    "latent positions of a Gaussian process": """
        import autograd.numpy as np
        import autograd.numpy.random as npr
        from autograd import value_and_grad

        rs = npr.RandomState(7)
        data = rs.randn(8, 3)

        def rbf(params, x, xp):
            diffs = np.expand_dims(x / np.exp(params[1:]), 1) - np.expand_dims(xp / np.exp(params[1:]), 0)
            return np.exp(params[0]) * np.exp(-0.5 * np.sum(diffs**2, axis=2))

        def loss(params):
            latents = np.reshape(params[4:], (8, 2))
            cov = rbf(params[1:4], latents, latents) + np.exp(params[0]) * np.eye(8)
            L = np.linalg.cholesky(cov)
            z = np.linalg.solve(L, data)
            return 0.5 * np.sum(z**2) + 3 * np.sum(np.log(np.diag(L))) + 0.5 * np.sum(latents**2)

        params = rs.randn(4 + 16)
        value, gradient = value_and_grad(loss)(params)
        start = (params,)
    """,
    "natural gradients": """
        import autograd.numpy as np
        from autograd import grad, hessian, jacobian

        x = np.linspace(-1, 1, 12)

        def model(theta):
            return theta[0] * np.exp(theta[1] * x) + theta[2] * x**2

        y = model(np.array([1.0, 0.5, -0.3])) + 0.01 * np.cos(9 * x)

        def loss(theta):
            return 0.5 * np.sum((model(theta) - y) ** 2)

        theta = np.array([0.5, 0.2, 0.0])
        start = (theta,)
        for i in range(5):
            J = jacobian(model)(theta)
            theta = theta - np.linalg.solve(np.dot(J.T, J) + 1e-6 * np.eye(3), grad(loss)(theta))
        laplace = np.linalg.inv(hessian(loss)(theta))
    """,
    "gradients of gradient descent": """
        import autograd.numpy as np
        from autograd import grad

        A, b = np.array([[2.0, 0.3], [0.3, 1.0]]), np.array([1.0, -1.0])

        def inner(w, log_decay):
            return 0.5 * np.dot(w, np.dot(A, w)) - np.dot(b, w) + np.exp(log_decay) * np.sum(np.cosh(w))

        def loss(hyper):
            w, velocity = hyper["w"], 0.0
            for t in range(10):
                g = grad(inner)(w, hyper["log_decay"])
                velocity = hyper["mass"] * velocity - 0.1 * g
                w = w + velocity
            return np.sum((w - 1.0) ** 2)

        hyper = {"w": np.array([0.1, 0.2]), "log_decay": -1.0, "mass": 0.5}
        hypergradient = grad(loss)(hyper)
        start = (hyper,)
    """,
    "forces between particles": """
        import autograd.numpy as np
        from autograd import grad, hessian

        def energy(q):
            i, j = np.triu_indices(len(q), 1)
            r = np.linalg.norm(q[i] - q[j], axis=1)
            return np.sum(1.0 / r**12 - 2.0 / r**6)

        q = np.array([[0.0, 0.0], [1.1, 0.0], [0.2, 1.0], [1.3, 1.2]])
        v = np.zeros(q.shape)
        loss, start = energy, (q,)
        stiffness = hessian(energy)(q)
        for step in range(10):
            v = v - 0.005 * grad(energy)(q)
            q = q + 0.01 * v
        total = energy(q) + 0.5 * np.sum(v**2)
    """,
    "two players": """
        import autograd.numpy as np
        import autograd.numpy.random as npr
        from autograd import grad

        rs = npr.RandomState(8)
        real, noise = rs.randn(20, 1) + 2.0, rs.rand(20, 2)

        def net(params, x):
            for W, b in params:
                x = np.maximum(np.dot(x, W) + b, 0.1 * (np.dot(x, W) + b))
            return x

        def loss(generator, critic):
            fake = net(generator, noise)
            score = np.mean(-np.logaddexp(0, -net(critic, real))) + np.mean(-np.logaddexp(0, net(critic, fake)))
            slope = grad(lambda x: np.sum(net(critic, x)))(fake)
            return score - np.mean((np.sqrt(np.sum(slope**2, axis=1)) - 1) ** 2)

        layers = lambda sizes: [(rs.randn(m, n), rs.randn(n)) for m, n in zip(sizes[:-1], sizes[1:])]
        generator, critic = layers([2, 3, 1]), layers([1, 3, 1])
        both = grad(loss, (0, 1))(generator, critic)
        one = grad(loss, 1)(generator, critic)
        start = (generator, critic)
    """,
    "kernel mean and entropy of samples": """
        import autograd.numpy as np
        import autograd.numpy.random as npr
        from autograd import grad, jacobian

        rs = npr.RandomState(9)
        target = rs.randn(15, 2)

        def kernel(x, y):
            return np.exp(-np.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1) / 2)

        def loss(x):
            mmd = np.mean(kernel(x, x)) - 2 * np.mean(kernel(x, target)) + np.mean(kernel(target, target))
            sign, logdet = np.linalg.slogdet(np.dot(x.T, x) + np.eye(2))
            return mmd - 0.01 * sign * logdet

        x = rs.randn(6, 2)
        start = (x,)
        for i in range(5):
            x = x - 1.0 * grad(loss)(x)
        flow = jacobian(lambda x: np.tanh(x) @ np.array([1.0, 2.0]))(x)
    """,
    "a portfolio": """
        import autograd.numpy as np
        from autograd import grad, value_and_grad

        returns = np.sin(np.outer(np.arange(30), [0.7, 1.1, 1.9, 2.3])) * 0.02 + np.array([0.01, 0.005, 0.0, 0.02])

        def softmax(z):
            e = np.exp(z - np.max(z))
            return e / np.sum(e)

        def loss(z):
            log_wealth = np.cumsum(np.log(1 + np.dot(returns, softmax(z))))
            daily = np.diff(log_wealth)
            worst = np.mean(np.sort(daily)[:5])
            return -(np.mean(daily) / np.std(daily) + np.exp(log_wealth[-1]) + worst) + np.where(z > 1, (z - 1) ** 2, 0.0).sum()

        z = np.array([0.1, -0.2, 0.3, 0.0])
        start = (z,)
        history = []
        for i in range(10):
            value, g = value_and_grad(loss)(z)
            history.append(value)
            z = z - 0.1 * g / np.linalg.norm(g)
    """,
    "a Kalman filter": """
        import autograd.numpy as np
        import autograd.numpy.random as npr
        from autograd import grad

        rs = npr.RandomState(10)
        ys = np.cumsum(rs.randn(12, 2), axis=0)

        def loss(params):
            A, Q = params["A"], np.dot(params["Q_root"], params["Q_root"].T)
            R, C = np.diag(np.exp(params["log_r"])), np.array([[1.0, 0.2], [0.0, 1.0]])
            m, P, log_lik = np.zeros(2), np.eye(2), 0.0
            for y in ys:
                m, P = A @ m, A @ P @ A.T + Q
                S, e = C @ P @ C.T + R, y - C @ m
                gain = np.linalg.solve(S, C @ P).T
                log_lik += -0.5 * (np.log(np.linalg.det(2 * np.pi * S)) + e.T @ np.linalg.inv(S) @ e)
                m, P = m + gain @ e, P - gain @ S @ gain.T
            return -log_lik

        params = {"A": 0.9 * np.eye(2), "Q_root": np.eye(2) + 0.1, "log_r": np.zeros(2)}
        gradient = grad(loss)(params)
        start = (params,)
    """,
    "a double pendulum by its Lagrangian": """
        import autograd.numpy as np
        from autograd import grad, hessian, jacobian

        def lagrangian(q, qdot):
            t1, t2 = q
            w1, w2 = qdot
            kinetic = w1**2 + 0.5 * w2**2 + w1 * w2 * np.cos(t1 - t2)
            return kinetic + 9.8 * (2 * np.cos(t1) + np.cos(t2))

        def acceleration(q, qdot):
            mass = hessian(lagrangian, 1)(q, qdot)
            force = grad(lagrangian, 0)(q, qdot) - np.dot(jacobian(grad(lagrangian, 1), 0)(q, qdot), qdot)
            return np.linalg.solve(mass, force)

        q, v = np.array([1.0, 0.5]), np.zeros(2)
        for step in range(10):
            v = v + 0.02 * acceleration(q, v)
            q = q + 0.02 * v

        def loss(q):
            return np.sum(acceleration(q, v) ** 2)

        gradient = grad(loss)(q)
        start = (q,)
    """,
    "a network that solves a differential equation": """
        import autograd.numpy as np
        import autograd.numpy.random as npr
        from autograd import elementwise_grad as egrad
        from autograd import grad

        def u(params, x):
            W1, b1, W2, b2 = params
            return np.dot(np.tanh(np.dot(x[:, None], W1) + b1), W2)[:, 0] + b2

        u_xx = egrad(egrad(u, 1), 1)
        x = np.linspace(0, 1, 10)

        def loss(params):
            inside = np.mean((u_xx(params, x) + u(params, x) - np.sin(3 * x)) ** 2)
            return inside + u(params, np.zeros(1))[0] ** 2 + np.sum(u(params, np.ones(1)) ** 2)

        rs = npr.RandomState(11)
        params = [rs.randn(1, 8), rs.randn(8), rs.randn(8, 1), rs.randn(1)]
        for i in range(5):
            params = [p - 0.001 * g for p, g in zip(params, grad(loss)(params))]
        start = (params,)
    """,
    "attention": """
        import autograd.numpy as np
        import autograd.numpy.random as npr
        from autograd import grad

        rs = npr.RandomState(12)
        x, targets = rs.randn(2, 5, 6), rs.randint(4, size=(2, 5))

        def softmax(x):
            e = np.exp(x - np.max(x, axis=-1, keepdims=True))
            return e / np.sum(e, axis=-1, keepdims=True)

        def layer_norm(x, gain, bias):
            return gain * (x - np.mean(x, axis=-1, keepdims=True)) / np.sqrt(np.var(x, axis=-1, keepdims=True) + 1e-5) + bias

        def loss(params):
            parts = np.split(layer_norm(x, *params["norm"]) @ params["qkv"], 3, axis=-1)
            q, k, v = [np.transpose(np.reshape(a, (2, 5, 2, 3)), (0, 2, 1, 3)) for a in parts]
            scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(3.0)
            mixed = np.matmul(softmax(np.where(np.tril(np.ones((5, 5))) > 0, scores, -1e9)), v)
            out = x + np.dot(np.reshape(np.swapaxes(mixed, 1, 2), (2, 5, 6)), params["out"])
            out = 0.5 * out * (1 + np.tanh(np.sqrt(2 / np.pi) * (out + 0.044715 * out**3)))
            return -np.mean(np.log(softmax(out[..., :4]))[np.arange(2)[:, None], np.arange(5), targets])

        params = {"norm": (np.ones(6), np.zeros(6)), "qkv": rs.randn(6, 18), "out": rs.randn(6, 6)}
        gradient = grad(loss)(params)
        start = (params,)
    """,
    "rotations": """
        import autograd.numpy as np
        from autograd import grad, jacobian

        def rotation(q):
            w, x, y, z = q / np.linalg.norm(q)
            skew = np.stack([np.stack([0 * x, -z, y]), np.stack([z, 0 * x, -x]), np.stack([-y, x, 0 * x])])
            return np.eye(3) + 2 * w * skew + 2 * np.dot(skew, skew)

        def loss(q):
            R = rotation(q)
            return np.dot(np.cross(R[0], R[1]), np.array([1.0, 2.0, 3.0])) + np.trace(R) * np.arctan2(R[1, 0], R[0, 0])

        q = np.array([0.5, 0.1, -0.3, 0.7])
        turns, gradient = jacobian(rotation)(q), grad(loss)(q)
        start = (q,)
    """,
}


def both_ways():
    """Each script twice: autograd's and autotape's text."""
    for name, text in SCRIPTS.items():
        text = textwrap.dedent(text)
        ours = text
        for theirs, own in IMPORTS.items():
            ours = ours.replace(theirs, own)
        yield pytest.param(text, ours, id=name)
    for section in DOC.read_text(encoding="utf-8").split("\n## "):
        for text in BLOCK.findall(section):
            if text.startswith("import numpy as np\nfrom autotape import"):
                theirs = text
                for other, own in IMPORTS.items():
                    theirs = theirs.replace(own, other)
                yield pytest.param(theirs, text, id=f"{DOC.name}: {section.splitlines()[0]}")


BOTH = list(both_ways())


def run(text):
    """The names that a script leaves behind."""
    names = {"__name__": "script"}
    exec(compile(text, "script", "exec"), names)
    return names


def numbers(names):
    """Those that are numbers, arrays, or trees of them."""
    kinds = (bool, int, float, np.ndarray, np.generic)
    return {name: x for name, x in names.items() if tree.leaves(x) and all(isinstance(leaf, kinds) for leaf in tree.leaves(x))}


def assert_same(found, expected):
    for a, b in zip(tree.leaves(found), tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-9, 1e-11, strict=True)


@pytest.mark.parametrize("theirs, ours", BOTH)
def test_leaves_behind_what_it_does_with_autograd(theirs, ours):
    pytest.importorskip("autograd")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # autograd's own
        expected = numbers(run(theirs))
    found = run(ours)
    assert "loss" in found and "start" in expected and len(expected) > 1
    for name, x in expected.items():
        assert_same(found[name], x)


@pytest.mark.parametrize("theirs, ours", BOTH)
def test_gradients_agree_with_differences(theirs, ours):
    names = run(ours)
    start = names["start"]
    check_grads(names["loss"], start if isinstance(start, tuple) else (start,), modes=("reverse", "forward"))


def test_only_imports_are_replaced():
    for theirs, ours in (p.values for p in BOTH):
        for a, b in zip(theirs.splitlines(), ours.splitlines(), strict=True):
            assert a == b or ("import" in a and "import" in b)


# ---------------------------------------------------------------- the tables of the document

X = np.array([0.3, -0.7, 1.1])
V = np.array([1.0, -2.0, 0.5])
A = np.array([[2.0, 0.3, 0.1], [0.4, 1.0, -0.2]])


def test_other_names():
    autograd = pytest.importorskip("autograd")
    anp = pytest.importorskip("autograd.numpy")
    misc = pytest.importorskip("autograd.misc")

    def f(np, x, a=A):
        return np.tanh(np.dot(a, x)) * np.sum(x**2)

    def loss(np, x, a=A):
        return np.sum(f(np, x, a) ** 2)

    theirs, ours = partial(f, anp), partial(f, np)
    u, y = V[:2], ours(X)
    pull, value = autograd.make_vjp(theirs)(X)
    assert_same(at.vjp(ours, X)[0], value)
    assert_same(at.vjp(ours, X)[1](u), (pull(u),))
    assert_same(at.jvp(ours, X, V), autograd.make_jvp(theirs)(X)(V))
    assert_same(at.jvp(np.tanh, X, np.ones(3))[1], autograd.deriv(anp.tanh)(X))
    assert_same(at.jacobian(ours)(X), autograd.jacobian(theirs)(X))
    assert_same(at.vjp(ours, X)[1](y)[0], autograd.vector_jacobian_product(theirs)(X, y))
    assert_same(at.vjp(ours, X)[1](at.jvp(ours, X, V)[1])[0], autograd.make_ggnvp(theirs)(X)(V))

    theirs, ours = partial(loss, anp), partial(loss, np)
    assert_same(at.hessian(ours)(X), autograd.hessian(theirs)(X))
    assert_same(at.hvp(ours)(X, V, A), autograd.hessian_vector_product(theirs)(X, A, V))
    hvp, gradient = autograd.make_hvp(theirs)(X)
    found, pull = at.vjp(at.grad(ours), X)
    assert_same((found, pull(V)[0]), (gradient, hvp(V)))
    assert_same(at.grad(lambda x: (ours(x), 2.0), has_aux=True)(X), autograd.grad_and_aux(lambda x: (theirs(x), 2.0))(X))
    assert_same(at.grad(ours, 1)(X, A), autograd.grad(theirs, argnum=1)(X, A))
    assert_same(at.grad(lambda kw: ours(**kw))({"x": X, "a": A}), autograd.grad(theirs, (0, 1))(X, A))
    assert_same(at.flatten([X, (A, 2.0)])[0], misc.flatten([X, (A, 2.0)])[0])


@pytest.mark.parametrize(
    "f, instead, hint",
    [
        (lambda t: np.sum(np.array([t[0], t[1]]) ** 2), lambda t: np.sum(np.stack([t[0], t[1]]) ** 2), "np.stack"),
        (
            lambda t: np.linalg.det(np.array([[t[0], 0.0], [t[1], 1.0]])),
            lambda t: np.linalg.det(np.block([[t[0], 0.0], [t[1], 1.0]])),
            "np.stack",
        ),
        (lambda t: np.sum(np.array(t) ** 2), lambda t: np.sum(t**2), "drop its derivative"),
        (lambda t: np.sum(np.full(4, t[0])), lambda t: np.sum(t[0] * np.ones(4)), "np.broadcast_to"),
        (lambda t: np.sum(np.r_[t, 1.0] ** 2), lambda t: np.sum(np.concatenate([t, [1.0]]) ** 2), "np.concatenate"),
        (lambda t: np.sum(np.c_[t, t] ** 2), lambda t: np.sum(np.column_stack([t, t]) ** 2), "np.concatenate"),
        (lambda t: np.mean([t[0], t[1] ** 2]), lambda t: np.mean(np.stack([t[0], t[1] ** 2])), "np.stack"),
        (lambda t: np.sum([t[0], t[1] ** 2]), lambda t: sum([t[0], t[1] ** 2]), "np.stack"),
        (lambda t: np.sum(A.dot(t) ** 2), lambda t: np.sum((A @ t) ** 2), "drop its derivative"),
    ],
)
def test_what_is_written_otherwise_says_so(f, instead, hint):
    with pytest.raises(TypeError, match=hint):
        at.grad(f)(X)
    check_grads(instead, (X,), modes=("reverse", "forward"))


# ---------------------------------------------------------------- every function

def of_autograd():
    """The functions that autograd has a derivative of, as "numpy.linalg.inv"; what it keeps for itself stays out."""
    from autograd.core import primitive_vjps

    stats = vars(importlib.import_module("autograd.scipy.stats"))
    modules = ["numpy", "numpy.linalg", "numpy.fft", "scipy.special", "scipy.signal", "scipy.integrate", "scipy.linalg"]
    for name in [*modules, *(f"scipy.stats.{m}" for m in stats if inspect.ismodule(stats[m]))]:
        for function, value in vars(importlib.import_module(f"autograd.{name}")).items():
            if callable(value) and value in primitive_vjps and resolved(f"{name}.{function}") is not None:
                yield f"{name}.{function}"


def resolved(full):
    """What a full name in NumPy, SciPy or autotape means; None if there is no such thing."""
    parts = full.split(".")
    for n in range(len(parts) - 1, 0, -1):
        with contextlib.suppress(ImportError, AttributeError):
            return attrgetter(".".join(parts[n:]))(importlib.import_module(".".join(parts[:n])))
    return None


def listed(pattern):
    return {f"{m}.{f}": here for m, names, *here in pattern.findall(DOC.read_text(encoding="utf-8")) for f in names.split()}


def test_every_function_that_autograd_differentiates_is_listed():
    pytest.importorskip("autograd")
    pytest.importorskip("scipy")
    known = listed(FUNCTIONS).keys() | listed(ELSEWHERE).keys()
    found = set(of_autograd())
    assert len(found) > 150 and found <= known


def test_what_is_listed_is_there_and_differentiates():
    pytest.importorskip("scipy")
    opsets.load("scipy")
    for theirs, (here,) in listed(FUNCTIONS).items():
        name = theirs.rpartition(".")[2]
        function = resolved(f"{here.replace('np', 'numpy', 1) if here.startswith('np') else here}.{name}")
        if function is None and here == "np":
            continue  # np.pow and others are of newer NumPys
        assert callable(function), theirs
        if not here.startswith("autotape"):
            assert account(function).kind == DIFFERENTIABLE or name == "gammasgn", theirs


def test_what_make_diagonal_is_here():
    make_diagonal = pytest.importorskip("autograd.numpy").make_diagonal
    x = np.arange(1.0, 7).reshape(2, 3)
    np.testing.assert_array_equal(x[..., None] * np.eye(x.shape[-1]), make_diagonal(x, axis1=-1, axis2=-2))
