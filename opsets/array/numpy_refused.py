"""NumPy's functions that Tensors refuse: why, and what to use instead.

One that is registered by a user's `@operator(numpy=...)` or `@numpy_function(...)` is refused no more.
"""

from __future__ import annotations

from autotape.numpy_protocol import refuse

from . import numpy_functions, numpy_tables, numpy_values  # noqa: F401  (refusing what these have registered is an error)

# reason -> names in NumPy's namespace; some are newer or older than the NumPy at hand, which does no harm
REFUSED = {
    # ---------------------------------------------------------------- writing
    "a Tensor is not written into an array (np.copyto, np.full, np.full_like): np.broadcast_to(t, shape) repeats it, "
    "x.at[...].set(t) gives x with t in it": "copyto",
    "nothing is written in place: x.at[i].set(v) gives a new Tensor": "place put put_along_axis putmask",
    "nothing is written in place: i = np.arange(n), then x.at[i, i].set(v) gives a new Tensor": "fill_diagonal",
    "nothing is written in place: x.at[i].add(v) gives a new Tensor": "add.at",
    "nothing is written in place: x.at[i].add(-v) gives a new Tensor": "subtract.at",
    "nothing is written in place: x.at[i].multiply(v) gives a new Tensor": "multiply.at",
    "nothing is written in place: x.at[i].divide(v) gives a new Tensor": "divide.at",
    "nothing is written in place: x.at[i].max(v) gives a new Tensor": "maximum.at",
    "nothing is written in place: x.at[i].min(v) gives a new Tensor": "minimum.at",
    # ---------------------------------------------------------------- text, dates, files, records
    "text has no derivative, and Tensors hold numbers": """
        char.equal char.greater char.greater_equal char.less char.less_equal char.not_equal strings._join strings._rsplit strings._split
        strings._splitlines strings.capitalize strings.center strings.count strings.decode strings.encode strings.endswith
        strings.expandtabs strings.find strings.index strings.isalnum strings.isalpha strings.isdecimal strings.isdigit strings.islower
        strings.isnumeric strings.isspace strings.istitle strings.isupper strings.ljust strings.lower strings.mod strings.multiply
        strings.partition strings.replace strings.rfind strings.rindex strings.rjust strings.rpartition strings.startswith
        strings.str_len strings.swapcase strings.title strings.translate strings.upper strings.zfill
        _core.umath._center _core.umath._expandtabs _core.umath._expandtabs_length _core.umath._ljust _core.umath._lstrip_chars
        _core.umath._lstrip_whitespace _core.umath._partition _core.umath._partition_index _core.umath._replace _core.umath._rjust
        _core.umath._rpartition _core.umath._rpartition_index _core.umath._rstrip_chars _core.umath._rstrip_whitespace
        _core.umath._slice _core.umath._strip_chars _core.umath._strip_whitespace _core.umath._zfill
    """,
    "dates have no derivative, and Tensors hold numbers": "busday_count busday_offset datetime_as_string is_busday isnat",
    "a file holds values alone: pass t.numpy()": "save savetxt savez savez_compressed",
    "Tensors have no fields: use a dict of arrays": """
        lib.recfunctions.append_fields lib.recfunctions.apply_along_fields lib.recfunctions.assign_fields_by_name
        lib.recfunctions.drop_fields lib.recfunctions.find_duplicates lib.recfunctions.join_by lib.recfunctions.merge_arrays
        lib.recfunctions.rec_append_fields lib.recfunctions.rec_drop_fields lib.recfunctions.rec_join
        lib.recfunctions.recursive_fill_fields lib.recfunctions.rename_fields lib.recfunctions.repack_fields
        lib.recfunctions.require_fields lib.recfunctions.stack_arrays lib.recfunctions.structured_to_unstructured
        lib.recfunctions.unstructured_to_structured
    """,
    # ---------------------------------------------------------------- said better otherwise
    "it takes complex numbers alone; np.real and np.imag take real ones as well": "_core.umath.imag _core.umath.real",
    "its functions are run on parts of x: np.where(mask, f(x), g(x)) or np.select([mask, ...], [f(x), ...])": "piecewise",
    "it is for sets: np.unique(np.concatenate([t, u])) is the union": "union1d",
    "it is for sets: t[np.isin(t, u)] are the elements of t that are in u": "intersect1d",
    "it is for sets: t[~np.isin(t, u)] are the elements of t that are not in u": "setdiff1d",
    "it is for sets: np.concatenate([t[~np.isin(t, u)], u[~np.isin(u, t)]]) are the elements in one alone": "setxor1d",
    "for two variables there is np.polynomial.polynomial.polyval2d; for more write the sum of the terms": "polynomial.polynomial.polyvalnd",
}

for reason, names in REFUSED.items():
    refuse(reason, *(f"numpy.{name}" for name in names.split()))
