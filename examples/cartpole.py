"""Reinforcement learning: keep a pole upright on a cart that is pushed to the left or to the right.

    python examples/cartpole.py --method actor-critic

A method is a loss, and a generator of what to learn from, which plays with the parameters of that moment: `minimize` asks it for a batch
at a time.  The network is plain NumPy, so it plays on plain arrays.

reinforce     whole games; actions after which a game went on for longer than is usual become likelier (Williams 1992)
dqn           steps out of a memory; a network that tells what each action is worth learns from what it says of the next state (Mnih
              et al. 2015, with the two networks of van Hasselt et al. 2016)
actor-critic  20 steps of each cart; actions that turned out to be worth more than the critic had thought become likelier (Mnih et al. 2016)
"""

import argparse
from collections import deque
from itertools import count

import numpy as np

from autotape import random, stop_gradient
from autotape.opsets import v20 as ops
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
    return np.tanh(x * SCALE @ p["w1"] + p["b1"]) @ p["w2"]


def drawn(scores, rng):
    return np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def best(scores, rng):
    return np.argmax(scores, axis=1)


def chosen(x, actions):
    return np.take_along_axis(x, actions[:, None], axis=1)[:, 0]


def worth(fell, next_worth):
    """What steps are worth, on a scale on which to go on for ever is worth 1."""
    return (1 - GAMMA + GAMMA * np.where(fell, 0, next_worth)).astype(np.float32)


def normalised(x):
    return ((x - x.mean()) / (x.std() + 1e-6)).astype(np.float32)


def reinforce_loss(p, states, actions, weights):
    return -np.mean(weights * chosen(ops.logp(network(p, states), axis=1), actions))


def reinforce(params, rng):
    """The games of 16 carts: states, actions, and how much longer than usual it went on."""
    while True:
        carts, record, plays = Carts(16, rng), [], np.ones(16, bool)
        while plays.any():
            states, actions, playing = carts.state, drawn(network(params(), carts.state), rng), plays
            plays = plays & ~carts.step(actions)[2]
            record.append((states, actions, playing))
        states, actions, playing = map(np.array, zip(*record, strict=True))
        steps_left = np.cumsum(playing[::-1], axis=0)[::-1][playing]
        yield states[playing], actions[playing], normalised(1 - GAMMA**steps_left)


def dqn_loss(p, states, actions, targets):
    return np.mean((chosen(network(p, states), actions) - targets) ** 2)


def dqn(params, rng, size=100_000):
    """Some of the last 100,000 steps: states, actions, and what the actions are worth by the network of up to 50 steps ago."""
    carts, memory = Carts(16, rng), deque(maxlen=size // 16)
    for n in count():
        if n % 50 == 0:
            older = params()
        states, explores = carts.state, rng.random(16) < max(0.02, 1 - n / 1000)
        actions = np.where(explores, rng.integers(0, 2, 16), best(network(params(), states), rng))
        memory.append((states, actions, *carts.step(actions)[:2]))
        some = [memory[i] for i in rng.integers(0, len(memory), 16)]
        states, actions, after, fell = map(np.concatenate, zip(*some, strict=True))
        next_actions = best(network(params(), after), rng)  # chosen by the new network, judged by the older one
        yield states, actions, worth(fell, chosen(network(older, after), next_actions))


def actor_critic_loss(p, states, actions, returns):
    scores = network(p, states)
    logp, values = ops.logp(scores[:, :2], axis=1), scores[:, 2]
    surprise = returns - values
    entropy = -np.mean(np.sum(np.exp(logp) * logp, axis=1))
    # both factors bring what they stand before to a size of about 1: a cart that stays up earns 0.01 a step
    return -np.mean(5 * stop_gradient(surprise) * chosen(logp, actions)) + 20 * np.mean(surprise**2) - 0.001 * entropy


def actor_critic(params, rng):
    """20 steps of 16 carts: states, actions, and what they turned out to be worth, by the critic's word on where they led."""
    carts = Carts(16, rng)
    while True:
        record = []
        for _ in range(20):
            states, actions = carts.state, drawn(network(params(), carts.state)[:, :2], rng)
            record.append((states, actions, *carts.step(actions)))
        states, actions, after, fell, ended = map(np.array, zip(*record, strict=True))
        found = network(params(), after)[..., 2]
        for t in reversed(range(19)):
            found[t] = np.where(ended[t], found[t], worth(fell[t + 1], found[t + 1]))
        yield states.reshape(-1, 4), actions.reshape(-1), worth(fell, found).reshape(-1)


METHODS = {  # loss, experience, how it acts, outputs, updates, learning rate
    "reinforce": (reinforce_loss, reinforce, drawn, 2, 80, 0.01),
    "dqn": (dqn_loss, dqn, best, 2, 8000, 0.003),
    "actor-critic": (actor_critic_loss, actor_critic, drawn, 3, 1000, 0.005),
}


def test(params, act, rng, games=100):
    """How many steps games last, on average."""
    carts = Carts(games, rng)
    first = np.zeros(games, int)
    while not first.all():
        steps = carts.steps + 1
        ended = carts.step(act(network(params, carts.state)[:, :2], rng))[2]
        first = np.where(ended & (first == 0), steps, first)
    return first.mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=METHODS, default="actor-critic")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a fifth of the updates")
    args = parser.parse_args()
    random.set(args.seed)
    rng = np.random.default_rng(args.seed)

    loss, experience, act, outputs, updates, lr = METHODS[args.method]
    updates = updates // 5 if args.quick else updates
    params = init(outputs)
    print(f"untrained: the pole stays up for {test(params, act, rng):.1f} steps of {MOST}")
    run = minimize(loss, experience(lambda: run.params, rng), Adam(lr=lr, clip_norm=1.0, schedule=linear(updates)), params=params)
    for n in range(1, updates + 1):
        next(run)
        if n % (updates // 10) == 0:
            print(f"update {n}: {test(run.params, act, rng):.1f} steps", flush=True)
    print(f"{args.method}: the pole stays up for {test(run.params, act, rng):.1f} steps of {MOST}")


if __name__ == "__main__":
    main()
