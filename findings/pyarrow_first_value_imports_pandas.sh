#!/usr/bin/env bash
# pyarrow 24.0.0 with pandas 2.3.3: the first value that is turned into an Arrow one (`pa.array`, `pa.scalar`,
# `pa.table`, also from lists and NumPy arrays) imports pandas wherever that is installed, though no pandas
# object is near. So do reading and writing Parquet, of a table without a row, too. It takes some tenths of a second
# and 40 MiB in every process. `pa.Array.from_buffers` does not.
#
# A program whose workers never use pandas still pays for it in each of them.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet pyarrow==24.0.0 pandas==2.3.3 numpy==2.3.5
venv/bin/python -c 'import pyarrow, pandas; print("pyarrow", pyarrow.__version__, "pandas", pandas.__version__)'
check() {
    local printed
    printed=$(venv/bin/python -c "
import sys
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

$1
print('pandas' in sys.modules)")
    printf '%-70s pandas imported: %s\n' "$1" "$printed"
    [ "$printed" = "$2" ]
}
check 'None' False
check 'column = pa.array([1, 2])' True
check 'value = pa.scalar(3)' True
check 'column = pa.array(np.arange(3))' True
check 'column = pa.Array.from_buffers(pa.int64(), 3, [None, pa.py_buffer(np.arange(3))])' False
check 'pq.write_table(pa.schema([("x", pa.int64())]).empty_table(), "x.parquet")' True
check 'table = pq.read_table("x.parquet")' True
