"""Output -> what it holds, and how a job on it is doing."""

from __future__ import annotations

import os

from daskrf.files.backend import as_path
from daskrf.parameters import Command
from daskrf.storage import inspection

CLI = Command("daskrf status real.fingerprints", step=6)


def status(store: str | os.PathLike[str]) -> inspection.StoreStatus | inspection.FolderStatus:
    """Show what an output holds, and how a job on it is doing.

    Works on every output, finished or not: stores, models, and files of hits, batches and so on. For any
    other folder it lists the outputs inside. It is quick, because it reads only commit records, file sizes
    and run logs; verify reads every byte.

    Parameters
    ----------
    store : path
        A store, a model, a file that a command has written, or a folder of these.

    Raises
    ------
    StoreError
        If there is nothing at `store`, it is not an output of daskrf, or its format version is unknown.
    """
    return inspection.status(as_path(store))
