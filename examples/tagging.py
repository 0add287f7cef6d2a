"""Sequence tagging with a bidirectional LSTM: which words of a sentence are quoted?

    python examples/tagging.py

The sentences are made here, of random words and marks < and >.  The words between a < and the next mark are a quotation if that mark
is a >: the first of them is tagged B, the others I, and all that is outside O.  A tag depends on what stands left and right of it, so
that takes both directions.  Sentences differ in length: they are packed, the longest first, as RNN takes them, without padding.
"""

import argparse
from itertools import pairwise

import numpy as np

import autotape as at
from autotape.opsets import v20 as ops
from autotape.train import Adam, minimize, param, param0, progress

WORDS, OPEN, CLOSE = 26, 26, 27  # words are the numbers below 26, shown as letters
TAGS = "OBI"


def sentence(rng):
    """Words and marks, and their tags."""
    x = rng.integers(0, WORDS, rng.integers(5, 40))
    x = np.where(rng.random(len(x)) < 0.25, rng.integers(OPEN, CLOSE + 1, len(x)), x)
    tags, marks = np.zeros(len(x), int), np.flatnonzero(x >= WORDS)
    for left, right in pairwise(marks):
        if (x[left], x[right]) == (OPEN, CLOSE):
            tags[left + 1 : right] = 2
            tags[left + 1 : min(left + 2, right)] = 1
    return x, tags


def packed(sentences):
    """The first words of all sentences, the second ones, and so on; their tags; and how many there are of each."""
    sentences = sorted(sentences, key=lambda s: -len(s[0]))
    sizes = [sum(len(x) > t for x, _ in sentences) for t in range(len(sentences[0][0]))]
    words, tags = (np.concatenate([[s[part][t] for s in sentences[:n]] for t, n in enumerate(sizes)]) for part in (0, 1))
    return words, tags, sizes


def batches(n, rng):
    return [packed([sentence(rng) for _ in range(32)]) for _ in range(n)]


class Tagger:
    """Packed words to the scores of their tags."""

    def __init__(self, hidden, bidirectional):
        self.embedding = param(CLOSE + 1, 16)
        self.rnn = ops.RNN(16, hidden, bidirectional=bidirectional)
        self.w, self.b = param(hidden * (1 + bidirectional), len(TAGS)), param0(len(TAGS))

    def __call__(self, words, sizes):
        return self.rnn(self.embedding[words], batch_sizes=sizes) @ self.w + self.b

    def loss(self, words, tags, sizes):
        return ops.nll(self(words, sizes), tags)

    def accuracy(self, data):
        """The share of tags that are right."""
        with at.no_grad():
            right = [ops.accuracy(self(words, sizes), tags, average=False) for words, tags, sizes in data]
        correct, count = np.sum(right, axis=0)
        return correct / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--forward", action="store_true", help="read from left to right only, to see what that misses")
    parser.add_argument("--quick", action="store_true", help="a few batches")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    at.random.set(args.seed)
    rng = np.random.default_rng(args.seed)

    model, test = Tagger(48, bidirectional=not args.forward), batches(5 if args.quick else 20, rng)
    opt = Adam(lr=0.01, clip_norm=1.0)
    print(f"untrained: {100 * model.accuracy(test):.1f} % of the tags are right")
    for epoch in range(1, 3 if args.quick else 6):
        losses = list(progress(minimize(model.loss, batches(30, rng), opt), title=f"epoch {epoch}"))
        print(f"epoch {epoch}: loss {np.mean(losses):.4f}, {100 * model.accuracy(test):.2f} % of the tags of new sentences are right")

    words, tags, sizes = packed([sentence(rng)])
    text = "".join("abcdefghijklmnopqrstuvwxyz<>"[w] for w in words)
    with at.no_grad():
        found = np.argmax(model(words, sizes).numpy(), axis=1)
    print(text, "".join(TAGS[t] for t in found), "".join(TAGS[t] for t in tags) + " is right", sep="\n")
    print(f"accuracy {100 * model.accuracy(test):.2f} %")


if __name__ == "__main__":
    main()
