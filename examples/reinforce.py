"""REINFORCE plays CartPole: actions after which a game went on for longer than is usual become likelier (Williams 1992).

    python examples/reinforce.py         # the game is in cartpole.py
"""

import numpy as np
from cartpole import GAMMA, Carts, chosen, drawn, learn, network

from autotape.opsets import v20 as ops


def loss(p, states, actions, weights):
    return -np.mean(weights * chosen(ops.logp(network(p, states), axis=1), actions))


def normalised(x):
    return ((x - x.mean()) / (x.std() + 1e-6)).astype(np.float32)


def experience(params, rng):
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


if __name__ == "__main__":
    learn(__doc__, loss, experience, drawn, outputs=2, updates=80, lr=0.01)
