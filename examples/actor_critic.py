"""An actor and a critic play CartPole: actions that turned out to be worth more than the critic had thought become likelier.

    python examples/actor_critic.py      # the game is in cartpole.py

One network is both: two of its outputs are scores of the actions, the third is what the critic thinks (Mnih et al. 2016).
"""

import numpy as np
from cartpole import Carts, chosen, drawn, learn, network, worth

from autotape import stop_gradient
from autotape.opsets import v20 as ops


def loss(p, states, actions, returns):
    scores = network(p, states)
    logp, values = ops.logp(scores[:, :2], axis=1), scores[:, 2]
    surprise = returns - values
    entropy = -np.mean(np.sum(np.exp(logp) * logp, axis=1))
    # both factors bring what they stand before to a size of about 1: a cart that stays up earns 0.01 a step
    return -np.mean(5 * stop_gradient(surprise) * chosen(logp, actions)) + 20 * np.mean(surprise**2) - 0.001 * entropy


def experience(params, rng):
    """20 steps of 16 carts: states, actions, and what they turned out to be worth, by the critic's word on where they led."""
    carts = Carts(16, rng)
    while True:
        record = []
        for _ in range(20):
            states, actions = carts.state, drawn(network(params(), carts.state), rng)
            record.append((states, actions, *carts.step(actions)))
        states, actions, after, fell, ended = map(np.array, zip(*record, strict=True))
        returns = network(params(), after)[..., 2]
        for t in reversed(range(19)):
            returns[t] = np.where(ended[t], returns[t], worth(fell[t + 1], returns[t + 1]))
        yield states.reshape(-1, 4), actions.reshape(-1), worth(fell, returns).reshape(-1)


if __name__ == "__main__":
    learn(__doc__, loss, experience, drawn, outputs=3, updates=1000, lr=0.005)
