"""How a file of labels is read, in one line."""

from __future__ import annotations

import os
from typing import Any

from daskrf.measurements.opening import INCHIKEY_NAMES, find_key, open_labels
from daskrf.measurements.reading import KEYS, Reading
from daskrf.tables.beside import named
from daskrf.tables.formats import reader_of
from daskrf.tables.library import file_words
from daskrf.tables.values.docking import known_score
from daskrf.tables.values.names import column_words

_BESIDE_WORDS = {
    "relations": "marks censored values",
    "replicates": "gives the number of measurements that each is the mean of",
    "deviations": "gives their standard deviation",
    "errors": "gives the standard error of each mean",
}


def label_words(path: str | os.PathLike[str], reading: Reading | None = None, **options: Any) -> str:
    """Return how `read_labels` reads a file, in one line: its format, and its key and target columns.

    Raises
    ------
    InputError
        As `read_labels`, for the columns.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "scores.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("Compound ID,score\\nA,-7.5\\n")
    ...     print(label_words(path).removeprefix(folder + os.sep))
    scores.csv: UTF-8 text, separated by commas, with a header; IDs in 'Compound ID', target 'score'
    """
    source = open_labels(path, reading or Reading(**options))
    table, key = source.table, source.reading.key
    has_key = source.reading.key_column is not None or find_key(source.head, source.names, key) is not None
    every = column_words(source.names, *range(len(source.names)))
    first = "" if has_key else f" (none of {every} is a usual name for {KEYS[key].partition(',')[0]})"
    text = f"target{'s' if len(source.targets) > 1 else ''} {column_words(table.names, *source.targets)}"
    scores = [known_score(source.names[k], source.names) for k in source.targets]
    text += "".join(f" ({score.words()})" for score in dict.fromkeys(scores) if score is not None)
    text += "".join(
        f", {words}" for words in dict.fromkeys(each.words() for each in source.notations) if words
    )
    for column, meaning in _BESIDE_WORDS.items():
        if column in source.more:
            text += f", {column_words(table.names, source.more[column])} {meaning}"
    text += "".join(f", {scale.words()}" for scale in source.scales if scale.worth_stating)
    for why in dict.fromkeys(source.unused.values()):
        places = [place for place, reason in source.unused.items() if reason == why]
        text += f"; {column_words(table.names, *places)} unused: {why}"
    what = KEYS[key]
    if key == "inchikey" and source.key_position != named(source.names, INCHIKEY_NAMES, ()):
        what = "InChIKeys of the SMILES"
    where = f"{what} in {column_words(table.names, source.key_position)}{first}"
    return f"{file_words(path)}: {reader_of(table).words(table)}; {where}, {text}"
