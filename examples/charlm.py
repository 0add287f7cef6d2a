"""A character language model: an LSTM that learns to write sonnets, letter by letter.

    python examples/charlm.py --data FOLDER        # with text/sonnets.txt in it; or --text FILE, any text of yours
    python examples/charlm.py                      # learns to write Python, from these examples

The text is cut into 32 strips that are read side by side, 64 characters at a time.  The network carries its state from one batch to
the next, so that it has read its strip from the beginning while gradients go back 64 characters.  The last tenth is held out.
"""

import argparse
from pathlib import Path

import numpy as np

import autotape as at
from autotape.opsets import v20 as ops
from autotape.train import Adam, gaussian, minibatch, minimize, param, param0, progress, schedules


def read(args):
    """The text of a file, or of all these examples."""
    if args.text or args.data:
        return (args.text or args.data / "text" / "sonnets.txt").read_text(encoding="utf-8")
    return "".join(path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("*.py")))


class CharLM:
    """Characters (T, B), as numbers, to the scores (T, B, characters) of those that follow."""

    def __init__(self, characters, hidden):
        self.embedding = param(characters, 64, init=gaussian, std=0.3)
        self.rnn = ops.RNN(64, hidden, h=0, c=0)
        self.w, self.b = param(hidden, characters), param0(characters)

    def __call__(self, x):
        h = self.rnn(ops.dropout(self.embedding[x], 0.1))
        return ops.dropout(h, 0.4) @ self.w + self.b

    def loss(self, x, y):
        return ops.nll(self(x), y, axis=-1)

    def held_out(self, codes):
        """Nats per character over a text, read from its beginning."""
        self.forget()
        with at.no_grad():
            return float(self.loss(codes[:-1, None], codes[1:, None]))

    def write(self, first, length, generator, temperature=0.7):
        """As many characters, each drawn by its score."""
        self.forget()
        codes = [first]
        with at.no_grad():
            for _ in range(length):
                scores = self(np.array([codes[-1:]])).numpy()[0, 0] / temperature
                codes.append(int(np.argmax(scores + generator.gumbel(size=scores.shape))))
        return codes[1:]

    def forget(self):
        self.rnn.h = self.rnn.c = 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--data", type=Path, metavar="FOLDER", help="with text/sonnets.txt in it (default: these examples)")
    source.add_argument("--text", type=Path, metavar="FILE")
    parser.add_argument("--quick", action="store_true", help="a small network, one epoch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the trained parameters, as safetensors")
    args = parser.parse_args()
    at.random.set(args.seed)

    text = read(args)
    alphabet = sorted(set(text))
    codes = np.array([alphabet.index(c) for c in text])
    seen, held = np.split(codes, [len(codes) * 9 // 10])
    strips = seen[: len(seen) // 32 * 32].reshape(32, -1).T
    data = minibatch(strips[:-1], strips[1:], 64)

    epochs, hidden = (1, 64) if args.quick else (30, 256)
    model = CharLM(len(alphabet), hidden)
    opt = Adam(lr=0.004, clip_norm=1.0, schedule=schedules.cosine(epochs * len(data)))
    print(f"untrained: {model.held_out(held):.3f} nats per character of the held-out text")
    for epoch in range(1, epochs + 1):
        model.forget()
        losses = list(progress(minimize(model.loss, data, opt), title=f"epoch {epoch}"))
        if epoch % 5 == 0 or epoch == epochs:
            print(f"epoch {epoch}: training {np.mean(losses):.3f}, held-out {model.held_out(held):.3f} nats per character", flush=True)
    # the first character of the alphabet, where a text has lines, is their end
    print("".join(alphabet[c] for c in model.write(0, 60 if args.quick else 500, np.random.default_rng(args.seed))))
    if args.save:
        at.save(args.save, {"alphabet": "".join(alphabet), "embedding": model.embedding, "rnn": model.rnn, "w": model.w, "b": model.b})
    print(f"held-out text: {model.held_out(held):.3f} nats per character")


if __name__ == "__main__":
    main()
