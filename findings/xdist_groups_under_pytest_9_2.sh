#!/usr/bin/env bash
# pytest-xdist 3.8.0 --dist=loadgroup does nothing under pytest 9.2.0: tests of one xdist_group run in several
# processes, without an error or a warning. With pytest 9.0.1 they run in one.
#
# xdist hands the group to its scheduler by writing it behind the name of a test (item._nodeid), which pytest
# 9.2 no longer reads: it keeps a NodeId object. Session and module fixtures of a group are then set up in each
# process: a suite that relies on groups for what is dear to set up takes several times as long, and what must
# exist once exists several times. --dist=loadfile and --dist=loadscope read the name itself, and work.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir suite
cat > suite/test_group.py <<'PYTHON'
import os
import time

import pytest

pytestmark = pytest.mark.xdist_group("one")


@pytest.mark.parametrize("number", range(40))
def test_in_one_process(number):
    time.sleep(0.05)
    with open(os.environ["SEEN"], "a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\n")
PYTHON

processes() {  # how many processes the tests of the group ran in
    export SEEN="$work/seen-$1-$2"
    "$work/venv-$1/bin/python" -m pytest -q -n 3 --dist="$2" -p no:cacheprovider suite > "$work/output" 2>&1 ||
        { cat "$work/output"; exit 1; }
    sort -u "$SEEN" | wc -l
}

for version in 9.0.1 9.2.0; do
    python3 -m venv "venv-$version"
    "venv-$version/bin/pip" install --quiet "pytest==$version" pytest-xdist==3.8.0
done
old=$(processes 9.0.1 loadgroup)
new=$(processes 9.2.0 loadgroup)
file=$(processes 9.2.0 loadfile)
echo "processes of one group of 40 tests, -n 3: pytest 9.0.1 $old, pytest 9.2.0 $new; by --dist=loadfile $file"
[ "$old" -eq 1 ] && [ "$new" -gt 1 ] && [ "$file" -eq 1 ]
