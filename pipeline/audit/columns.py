"""A table as numpy arrays by name, and its conversion from and to Arrow.

Always true: all columns of a table have one length. Offsets, ids, times (ms) and counts are int64, -1 is "none".
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]
Columns = dict[str, Array]
NONE = -1


def length(columns: Mapping[str, Array]) -> int:
    """The number of rows."""
    return len(next(iter(columns.values()))) if columns else 0


def select(columns: Mapping[str, Array], chosen: Array) -> Columns:
    """The rows at these positions, or where this mask is true."""
    return {name: column[chosen] for name, column in columns.items()}


def concatenate(tables: Iterable[Mapping[str, Array]]) -> Columns:
    """Tables with the same columns as one table, one below the other. Without any table it is empty."""
    several = list(tables)
    if not several:
        return {}
    return {name: np.concatenate([table[name] for table in several]) for name in several[0]}


def struct_array(columns: Mapping[str, Array], kind: pa.DataType) -> Any:
    """A table as one Arrow array of structs of type `kind`; columns that the type does not name are left out."""
    fields = [kind.field(index) for index in range(kind.num_fields)]
    arrays = [pa.array(columns[field.name], type=field.type) for field in fields]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def from_struct(array: Any) -> Columns:
    """A struct array without nulls as a table, of numbers and booleans only."""
    combined = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if isinstance(combined, pa.ChunkedArray):  # combine_chunks returns this for no chunks
        combined = pa.array([], type=array.type)
    names = [combined.type.field(index).name for index in range(combined.type.num_fields)]
    return {
        name: np.asarray(column.to_numpy(zero_copy_only=False))
        for name, column in zip(names, combined.flatten(), strict=True)
    }
