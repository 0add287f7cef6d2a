"""Deep Q-learning plays CartPole: a network tells what each action is worth, and learns from what it says of the next state.

    python examples/dqn.py               # the game is in cartpole.py

It learns from steps out of a memory (Mnih et al. 2015).  The next action is chosen by the network as it is and judged by the one of up to
50 steps ago, so that no action is chosen for being overrated (van Hasselt et al. 2016).
"""

from collections import deque
from itertools import count

import numpy as np
from cartpole import Carts, chosen, learn, network, worth


def loss(p, states, actions, targets):
    return np.mean((chosen(network(p, states), actions) - targets) ** 2)


def best(scores, rng):
    return np.argmax(scores, axis=1)


def experience(params, rng, size=100_000):
    """Some of the last 100,000 steps: states, actions, and what the actions are worth."""
    carts, memory = Carts(16, rng), deque(maxlen=size // 16)
    for n in count():
        if n % 50 == 0:
            older = params()
        states, explores = carts.state, rng.random(16) < max(0.02, 1 - n / 1000)
        actions = np.where(explores, rng.integers(0, 2, 16), best(network(params(), states), rng))
        memory.append((states, actions, *carts.step(actions)[:2]))
        some = [memory[i] for i in rng.integers(0, len(memory), 16)]
        states, actions, after, fell = map(np.concatenate, zip(*some, strict=True))
        next_actions = best(network(params(), after), rng)
        yield states, actions, worth(fell, chosen(network(older, after), next_actions))


if __name__ == "__main__":
    learn(__doc__, loss, experience, best, outputs=2, updates=8000, lr=0.003)
