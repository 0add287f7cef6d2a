"""CartPole: keep a pole upright on a cart that is pushed to the left or to the right.

The game, the network and the training that reinforce.py, dqn.py and actor_critic.py share.  A method is a loss, and its experience: a
generator of what to learn from, which plays with the parameters of that moment, and which `minimize` asks for a batch at a time.  The
network is plain NumPy, so it plays on plain arrays.
"""

import argparse

import numpy as np

from autotape import random
from autotape.train import Adam, minimize, xavier_uniform
from autotape.train.schedules import linear

MOST, GAMMA = 500, 0.99  # steps of a game; what a step is worth beside the one before
SCALE = np.array([1, 1, 10, 2], np.float32)  # angles are small


class Carts:
    """n carts with poles, the equations of Barto, Sutton and Anderson (1983); those that fell, or made it through, start again."""

    def __init__(self, n, rng):
        self.rng, self.steps = rng, np.zeros(n, int)
        self.state = self.fresh(n)  # (n, 4): place, speed, angle, angular speed

    def fresh(self, n):
        return self.rng.uniform(-0.05, 0.05, (n, 4)).astype(np.float32)

    def step(self, right):
        """Push each to the right or left: gives where that led, which fell, and which of them start again."""
        _, v, angle, spin = self.state.T
        push = (np.where(right, 10, -10) + 0.05 * spin**2 * np.sin(angle)) / 1.1
        turn = (9.8 * np.sin(angle) - np.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1))
        slope = np.stack([v, push - 0.05 * turn * np.cos(angle) / 1.1, spin, turn], axis=1)
        after = (self.state + 0.02 * slope).astype(np.float32)
        self.steps += 1
        fell = (np.abs(after[:, 0]) > 2.4) | (np.abs(after[:, 2]) > np.pi / 15)
        ended = fell | (self.steps == MOST)
        self.steps[ended] = 0
        self.state = np.where(ended[:, None], self.fresh(len(after)), after)
        return after, fell, ended


def init(outputs, hidden=64):
    return {"w1": xavier_uniform(4, hidden, gain=2), "b1": np.zeros(hidden, np.float32), "w2": np.zeros((hidden, outputs), np.float32)}


def network(p, x):
    """Scores (..., outputs) of states (..., 4); the first two are of pushing left and right."""
    return np.tanh(x * SCALE @ p["w1"] + p["b1"]) @ p["w2"]


def drawn(scores, rng):
    """Actions, each as likely as its score says."""
    return np.argmax(scores[:, :2] + rng.gumbel(size=(len(scores), 2)), axis=1)


def chosen(x, actions):
    """What x (N, 2) says of N actions."""
    return np.take_along_axis(x, actions[:, None], axis=1)[:, 0]


def worth(fell, next_worth):
    """What steps are worth, on a scale on which to go on for ever is worth 1."""
    return (1 - GAMMA + GAMMA * np.where(fell, 0, next_worth)).astype(np.float32)


def test(params, act, rng, games=100):
    """How many steps games last, on average."""
    carts = Carts(games, rng)
    first = np.zeros(games, int)
    while not first.all():
        steps = carts.steps + 1
        ended = carts.step(act(network(params, carts.state), rng))[2]
        first = np.where(ended & (first == 0), steps, first)
    return first.mean()


def learn(description, loss, experience, act, outputs, updates, lr):
    """Train by a method: loss(params, *batch) of the batches of experience(params, rng), where params() are those of the moment; test
    with act(scores, rng)."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a fifth of the updates")
    args = parser.parse_args()
    random.set(args.seed)
    rng, params = np.random.default_rng(args.seed), init(outputs)
    updates = updates // 5 if args.quick else updates

    print(f"untrained: the pole stays up for {test(params, act, rng):.1f} steps of {MOST}")
    run = minimize(loss, experience(lambda: run.params, rng), Adam(lr=lr, clip_norm=1.0, schedule=linear(updates)), params=params)
    for n in range(1, updates + 1):
        next(run)
        if n % (updates // 10) == 0:
            print(f"update {n}: {test(run.params, act, rng):.1f} steps", flush=True)
    print(f"trained: the pole stays up for {test(run.params, act, rng):.1f} steps of {MOST}")
