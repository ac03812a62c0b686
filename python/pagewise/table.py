"""Tables of Arrow columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Table:
    """Columns, read when they are asked for.

    Whatever knows the Arrow PyCapsule interface takes it as it is: ``pyarrow.table(t)``, ``polars.DataFrame(t)``,
    ``duckdb.sql("FROM t")``. No column is copied on the way.
    """

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._native.columns

    def to_arrow(self) -> pyarrow.Table:
        """All rows, as a ``pyarrow.Table``."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(self).read_all()

    def batches(self) -> pyarrow.RecordBatchReader:
        """Rows by some ten thousand, of a table that is larger than memory."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(self)

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """All rows, as a ``pandas.DataFrame``; options are those of ``pyarrow.Table.to_pandas``."""
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """All rows, as a ``polars.DataFrame``."""
        import polars

        return polars.DataFrame(self.to_arrow())

    def __repr__(self) -> str:
        return f"<pagewise.Table: {', '.join(self.columns)}>"
