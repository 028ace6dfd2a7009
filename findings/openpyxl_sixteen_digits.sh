#!/usr/bin/env bash
# openpyxl 3.1.5: numbers are written with 16 digits ("%.16g" in openpyxl/compat/strings.py), though a double
# takes 17: 1/7 is read back as another number. Excel itself stores 17 digits and shows 15.
#
# Who needs the same numbers back should compare to 1e-15, or keep them in CSV or Parquet as well.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet openpyxl==3.1.5
venv/bin/python - <<'PYTHON'
import io

import openpyxl

numbers = [1 / 7, 0.1 + 0.2, 1e22 / 3]
book, file = openpyxl.Workbook(), io.BytesIO()
book.active.append(numbers)
book.save(file)
read = list(next(openpyxl.load_workbook(file).active.iter_rows(values_only=True)))
for number, other in zip(numbers, read):
    print(repr(number), "is read back as", repr(other))
assert read != numbers
PYTHON
