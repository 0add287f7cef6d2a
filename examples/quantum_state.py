"""The Hamiltonian of a chain of spins, from the states that it leads to.

    python examples/quantum_state.py

Each spin feels a field of its own, and its neighbours: H is a sum of Pauli matrices and products of two, with unknown strengths.  From
one start, the state exp(-i H t) |start> is known at some times t, but for noise and its phase, which nobody can measure.  The strengths
are fitted by the fidelity, the share of the one state that is in the other; H is diagonalised for all times at once, so the gradient
goes through the eigenvectors of a complex matrix.
"""

import argparse
from functools import reduce
from itertools import islice, repeat

import numpy as np

from autotape.train import Adam, minimize, schedules

PAULI = np.array([[[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])
SPINS, TIMES = 4, np.linspace(0.1, 1, 10)


def product(spins, factors):
    """The Kronecker product of one matrix a spin, those that `factors` lacks being 1."""
    return reduce(np.kron, [factors.get(i, np.eye(2)) for i in range(spins)])


def terms(spins):
    """What H is a sum of, (terms, 2**spins, 2**spins): three directions of each spin's field, and of each pair of neighbours."""
    fields = [product(spins, {i: s}) for i in range(spins) for s in PAULI]
    couplings = [product(spins, {i: s, i + 1: s}) for i in range(spins - 1) for s in PAULI]
    return np.stack(fields + couplings)


def evolved(strengths, parts, start):
    """exp(-i H t) |start> at each time, (times, 2**spins)."""
    energies, states = np.linalg.eigh(np.tensordot(strengths, parts, 1))
    return np.exp(-1j * np.outer(TIMES, energies)) * (states.conj().T @ start) @ states.T


def fidelity(a, b):
    """abs(<a|b>)**2 of states along the last axis."""
    return np.abs(np.sum(np.conj(a) * b, axis=-1)) ** 2


def normalised(states):
    return states / np.linalg.norm(states, axis=-1, keepdims=True)


def random_states(rng, *shape):
    """States along the last axis, any as likely as any other."""
    return normalised(rng.normal(size=shape) + 1j * rng.normal(size=shape))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="half of the steps")
    args = parser.parse_args()
    steps = 150 if args.quick else 300

    rng = np.random.default_rng(args.seed)
    parts = terms(SPINS)
    truth, start = rng.uniform(-1, 1, len(parts)), reduce(np.kron, random_states(rng, SPINS, 2))
    seen = evolved(truth, parts, start)
    seen = normalised(seen + 0.02 * random_states(rng, *seen.shape))

    def loss(strengths):
        return 1 - np.mean(fidelity(seen, evolved(strengths, parts, start)))

    run = minimize(loss, repeat(()), Adam(lr=0.1, schedule=schedules.cosine(steps)), params=0.1 * rng.normal(size=len(parts)))
    for step, value in enumerate(islice(run, steps), 1):
        if step % (steps // 10) == 0:
            print(f"step {step}: infidelity {value:.6f}, strengths off by {np.abs(run.params - truth).max():.4f} at most")


if __name__ == "__main__":
    main()
