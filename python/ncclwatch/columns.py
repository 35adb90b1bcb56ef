"""The recorded calls as an Arrow table, through the Arrow C data interface: pyarrow, pandas, polars and DuckDB take the object
as it is. The work is done by libncclwatch-arrow.so."""

from __future__ import annotations

import ctypes
import os
from typing import Any, List, Optional

_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "ncclwatch", "libncclwatch-arrow.so")
_library: Optional[ctypes.CDLL] = None


def _native() -> ctypes.CDLL:
    global _library
    if _library is None:
        library = ctypes.CDLL(_PATH, use_errno=True)
        for name, result, arguments in (("", ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_size_t]),
                                        ("_free", None, [ctypes.c_void_p]), ("_rows", ctypes.c_int64, [ctypes.c_void_p]),
                                        ("_name", ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_int]),
                                        ("_schema", ctypes.c_void_p, [ctypes.c_void_p]),
                                        ("_stream", ctypes.c_void_p, [ctypes.c_void_p])):
            function = getattr(library, "ncclwatch_columns" + name)
            function.restype, function.argtypes = result, arguments
        _library = library
    return _library


def _capsule(address: int, name: bytes, end: Any) -> object:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(address, name, ctypes.cast(end, ctypes.c_void_p))


# The capsules keep pointers to these.
_SCHEMA, _STREAM = b"arrow_schema", b"arrow_array_stream"


class Calls:
    """Recorded calls in order of time, one row each; the columns are those of `ncclwatch trace --json`.

    pyarrow.table(calls), polars.DataFrame(calls), pyarrow.table(calls).to_pandas()
    """

    def __init__(self, data: bytes) -> None:
        self._native = _native()
        self._columns = self._native.ncclwatch_columns(data, len(data))
        if not self._columns:
            raise ValueError("not the columns that `ncclwatch trace --arrow` prints")

    def __del__(self) -> None:
        if getattr(self, "_columns", None):
            self._native.ncclwatch_columns_free(self._columns)

    def __len__(self) -> int:
        return int(self._native.ncclwatch_columns_rows(self._columns))

    @property
    def column_names(self) -> List[str]:
        names: List[str] = []
        name = self._native.ncclwatch_columns_name
        while (text := name(self._columns, len(names))) is not None:
            names.append(text.decode())
        return names

    def __arrow_c_schema__(self) -> object:
        return _capsule(self._native.ncclwatch_columns_schema(self._columns), _SCHEMA,
                        self._native.ncclwatch_schema_capsule_end)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return _capsule(self._native.ncclwatch_columns_stream(self._columns), _STREAM,
                        self._native.ncclwatch_stream_capsule_end)
