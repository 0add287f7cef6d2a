"""Tape: the explicit way to record, for those who think in tapes.

    w = Param(np.zeros((3, 2)))
    with Tape() as tape:
        loss = np.mean((x @ w - y) ** 2)
    w -= 0.1 * tape.gradient(loss, w)
"""

from __future__ import annotations

from typing import Any

from . import tree
from .errors import TapeError
from .fusion import FUSED_AWAY, settle
from .param import Param, as_variable, is_variable, watch
from .rows import Rows
from .tape import Record, Settings, active, dependents, forget, new_record, recording
from .tensor import Tensor, backend_of, constant, describe, is_tracked, leaf
from .walk import walk_raw, walk_traced


class Tape:
    """`with Tape() as tape:` records what is computed from Params, and from arrays given to tape.watch.

    tape.gradient walks back once and closes the tape; persistent=True keeps it until tape.close().  Tapes nest, last in,
    first out; a gradient taken inside another tape or grad can be differentiated there.
    """

    def __init__(self, persistent: bool = False) -> None:
        self.persistent = persistent
        self._record: Record | None = None
        self._open = False

    def __enter__(self) -> Tape:
        if self._record is not None:
            raise TapeError("this tape was entered already: make a new one for each `with`")
        self._outer = active()
        self._record = new_record() if self._outer is None else self._outer
        self._record.is_explicit |= self._outer is None
        self._recording = recording(self._record)
        self._recording.__enter__()
        self._end = self._record.end
        if self._outer is not None:
            self._record.watched.append({})
        self._watched, self._settings = self._record.watched[-1], Settings.now()
        self._start = self._record.end
        self._open = True
        return self

    def __exit__(self, kind: Any, *exc: Any) -> None:
        record, self._open = self._record, False
        assert record is not None
        if self._outer is not None:
            record.watched = [level for level in record.watched if level is not self._watched]
        try:
            if kind is None and self._outer is None:
                settle(record)
        finally:
            self._end = record.end
            self._recording.__exit__(kind, *exc)
            if kind is not None:
                self.close()

    def watch(self, x: Any) -> Tensor:
        """x as a variable of this tape; a Tensor that is recorded here is made real, so that its gradient can be asked for."""
        record = self._still_there()
        if not self._open:
            raise TapeError("tape.watch: the tape is not recording any more")
        if isinstance(x, Param):
            return watch(x)
        if isinstance(x, Tensor) and self._start <= x._id < record.end:
            return x
        if not is_variable(x, "tape.watch"):
            raise TypeError(f"tape.watch takes an array or number, not {describe(x)}")
        t = leaf(record, as_variable(x))
        if not isinstance(x, Tensor):
            record.borrowed.add(t._id)
        self._watched[-t._id] = t  # by a key that is no Param's: a variable of this tape
        return t

    @property
    def params(self) -> list[Param]:
        """The Params used on this tape so far, in the order of their first use."""
        return [p for p in self._still_there().params if id(p) in self._watched]

    def gradient(self, loss: Any, sources: Any, sparse: bool = False) -> Any:
        """The gradients of a scalar loss in sources: a Param, a Tensor recorded here, or a tree of them.

        Gives a tree like sources: for a Param an array, for a Tensor a Tensor, zeros where the loss does not depend on
        it; with sparse a Rows for what was only looked up.  Closes the tape unless it is persistent.  Raises TapeError if loss
        was not recorded here or the tape is used up.
        """
        record = self._still_there()
        if self._open and not self.persistent:
            raise TapeError("tape.gradient: ask after the `with` block, or make the tape persistent")
        if not isinstance(loss, Tensor) or loss._id < self._start or not record.holds(loss._id):
            raise TapeError(
                f"tape.gradient: the loss ({describe(loss)}) was not recorded on this tape. It must be computed inside the `with` from a "
                "Param or from what tape.watch gave (w = w - step makes a Param a Tensor: w -= step keeps it one)"
            )
        if loss.size != 1:
            raise TypeError(f"tape.gradient: the loss has shape {loss._shape}; a scalar is needed, such as loss.sum()")
        if loss.dtype.kind == "c":
            raise TypeError("tape.gradient: the loss is complex; a real scalar is needed, such as its np.abs or np.real")
        leaves, build = tree.flatten(sources)
        ids = [self._id_of(x, record) for x in leaves]
        try:
            found = self._walk(record, loss, [i for i in ids if i is not None])
            return build([self._hand_out(x, None if i is None else found[i], sparse) for x, i in zip(leaves, ids, strict=True)])
        finally:
            if not self.persistent:
                self.close()

    def close(self) -> None:
        """Forget what was recorded, so that Params may change."""
        if self._record is not None and self._start >= 0:
            if self._outer is None:
                self._record.clear()
            elif self._record.is_live and not self._open:
                forget(self._record, self._start, self._end, dependents(self._record, self._start))
        self._start = -1

    def _still_there(self) -> Record:
        if self._record is None:
            raise TapeError("the tape was not entered: use `with Tape() as tape:`")
        if self._start < 0:
            raise TapeError("the tape is used up: tape.gradient walks it once (Tape(persistent=True) keeps it)")
        return self._record

    def _id_of(self, x: Any, record: Record) -> int | None:
        if isinstance(x, Param):
            hit = self._watched.get(id(x))
            return None if hit is None else hit._id
        if not isinstance(x, Tensor):
            raise TypeError(f"tape.gradient: a source is {describe(x)}; it must be a Param or a Tensor that tape.watch gave")
        if x._id < self._start or not record.holds(x._id):
            raise TapeError(f"tape.gradient: a source ({describe(x)}) was not recorded on this tape; tape.watch(x) makes it a variable")
        if getattr(x, "_pending", None) is FUSED_AWAY:
            raise TapeError(
                f"tape.gradient: a source ({describe(x)}) was fused away, so the loss does not go through it: "
                'call tape.watch(x) before it is used, or compute under math_mode.use("pedantic")'
            )
        return x._id

    def _walk(self, record: Record, loss: Tensor, wanted: list[int]) -> dict[int, Any]:
        if not wanted:
            return {}
        with self._settings.restored():
            one = self._settings.kernels.ones(loss._shape, loss.dtype)
            if active() is not None and (self._outer is None or loss._id in dependents(record, self._start)):
                return walk_traced(record, [(loss._id, constant(one))], self._start, wanted)
            return walk_raw(record, [(loss._id, one)], self._start, wanted, keep=self.persistent or self._outer is not None)[0]

    def _hand_out(self, x: Any, g: Any, sparse: bool) -> Any:
        if type(g) is Rows:
            if sparse:
                return g.copy()
            g = g.dense()
        k = backend_of(x._value if isinstance(x, Param) else x._array)
        if g is None:
            g = k.zeros(x.shape, x.dtype)
        if not isinstance(g, Tensor):
            g = constant(k.copy(k.astype(g, x.dtype)))
        if isinstance(x, Param) and not is_tracked(g):
            return k.copy(g._array)
        return g
