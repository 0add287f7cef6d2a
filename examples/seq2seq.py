"""Sequence to sequence with attention: dates as people write them to dates as computers do.

    python examples/seq2seq.py                # "Tuesday, 3 March 1998" -> "1998-03-03"

An encoder reads the text in both directions.  A decoder writes character after character: its LSTM knows what it has written so far,
and attention chooses where in the text to look for the next one (Luong et al. 2015, dot products of the decoder's states with the
encoder's).  In training the decoder is given the right answer's characters, so that it goes through all of it in one call.
"""

import argparse
import datetime

import numpy as np

import autotape as at
from autotape.opsets import v20 as ops
from autotape.train import Adam, gaussian, minimize, param, param0, progress, schedules

FORMS = (
    "{0:%A}, {0.day} {0:%B} {0:%Y}", "{0.day} {0:%B} {0:%Y}", "{0:%B} {0.day}, {0:%Y}", "{0.day} {0:%b} {0:%Y}", "{0:%b} {0.day} {0:%Y}",
    "{0:%a} {0.day}.{0.month}.{0:%Y}", "{0:%Y/%m/%d}",
)  # fmt: skip
CHARACTERS = " ,./-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
START = CHARACTERS.index(" ")


def codes(texts):
    """Texts (B of them) as numbers (T, B), filled up with spaces."""
    length = max(map(len, texts))
    return np.array([[CHARACTERS.index(c) for c in text.ljust(length)] for text in texts]).T


def dates(n, rng):
    """n dates between 1900 and 2100: as somebody writes them, and right."""
    days = [datetime.date(1900, 1, 1) + datetime.timedelta(int(d)) for d in rng.integers(0, 73000, n)]
    return codes([FORMS[rng.integers(len(FORMS))].format(day) for day in days]), codes([day.isoformat() for day in days])


def lanes_first(x):
    return np.swapaxes(x, 0, 1)


class Translator:
    """An encoder, attention and a decoder."""

    def __init__(self, hidden):
        self.embedding = param(len(CHARACTERS), 32, init=gaussian, std=1.0)
        self.encoder = ops.RNN(32, hidden // 2, bidirectional=True)
        self.decoder = ops.RNN(32, hidden, h=0, c=0)
        self.query = param(hidden, hidden)
        self.mix, self.w, self.b = param(2 * hidden, hidden), param(hidden, len(CHARACTERS)), param0(len(CHARACTERS))

    def encode(self, x):
        """What can be looked at, (B, S, hidden).  The decoder begins anew."""
        self.decoder.h = self.decoder.c = 0
        return lanes_first(self.encoder(self.embedding[x]))

    def decode(self, memory, given):
        """The scores (B, T, characters) of those that follow each of `given` (T, B)."""
        states = lanes_first(self.decoder(self.embedding[given]))
        attention = ops.softmax((states @ self.query) @ np.swapaxes(memory, 1, 2), axis=-1)
        return np.tanh(np.concatenate([attention @ memory, states], axis=-1) @ self.mix) @ self.w + self.b

    def loss(self, x, y):
        given = np.concatenate([np.full_like(y[:1], START), y[:-1]])
        return ops.nll(self.decode(self.encode(x), given), y.T, axis=-1)

    def translate(self, x, length):
        """The characters (length, B) of the answers, each the one with the highest score."""
        found = [np.full_like(x[:1], START)]
        with at.no_grad():
            memory = self.encode(x)
            for _ in range(length):
                found.append(np.argmax(self.decode(memory, found[-1]).numpy(), axis=-1).T)
        return np.concatenate(found[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small network, a few batches")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    at.random.set(args.seed)
    rng = np.random.default_rng(args.seed)

    model, steps = Translator(32 if args.quick else 96), 60 if args.quick else 420
    x, y = dates(500, rng)
    opt = Adam(lr=0.005, clip_norm=1.0, schedule=schedules.linear(steps))
    run = minimize(model.loss, (dates(64, rng) for _ in range(steps)), opt)
    losses = []
    for loss in progress(run, lambda loss: f"loss {loss:.4f}"):
        losses.append(loss)
        if len(losses) % (steps // 6) == 0:
            right = np.all(model.translate(x, len(y)) == y, axis=0).mean()
            print(f"step {len(losses)}: loss {np.mean(losses[-20:]):.4f}, {100 * right:.1f} % of new dates are right", flush=True)

    for text, answer in zip(x[:, :3].T, model.translate(x[:, :3], len(y)).T, strict=True):
        print(*("".join(CHARACTERS[c] for c in codes) for codes in (text, answer)))
    print(f"loss {np.mean(losses[:5]):.3f} at first, {np.mean(losses[-20:]):.4f} at last; {100 * right:.1f} % of new dates are right")


if __name__ == "__main__":
    main()
