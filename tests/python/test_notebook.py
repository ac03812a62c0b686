"""The notebook of the examples runs from its first cell to its last."""

import os
from pathlib import Path

import nbclient
import nbformat

NOTEBOOK = Path(__file__).parents[2] / "examples/memory_pressure.ipynb"


def test_the_notebook_runs(sample, tmp_path, monkeypatch):
    monkeypatch.setenv("PAGEWISE_TRACE", sample)
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    pictures = [output for cell in notebook.cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
    assert len(pictures) == 3
    nbformat.write(notebook, Path(os.environ["WORK"]) / NOTEBOOK.name)
