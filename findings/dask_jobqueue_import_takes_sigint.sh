#!/usr/bin/env bash
# dask-jobqueue 0.9.0 with distributed 2026.8.0: `import dask_jobqueue` sets a handler of SIGINT for the whole
# process, also where no runner is used. After it Ctrl-C raises SystemExit, not KeyboardInterrupt: `except
# KeyboardInterrupt` is passed over, nothing is printed, and a script that was interrupted ends with exit code 0.
# A first import in a thread that is not the main one ends in a ValueError.
#
# A library that imports it late, on the user's behalf, should put the handler back.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet dask-jobqueue==0.9.0 distributed==2026.8.0 dask==2026.8.0
cat > interrupted.py <<'PYTHON'
import os
import signal
import sys
import time

if sys.argv[1] == "with":
    import dask_jobqueue

    print("dask-jobqueue", dask_jobqueue.__version__)
print("handler of Python:", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    print("KeyboardInterrupt")
    sys.exit(130)
PYTHON
cat > threaded.py <<'PYTHON'
import importlib
import threading


def load() -> None:
    try:
        importlib.import_module("dask_jobqueue")
    except ValueError as error:
        print("ValueError:", error)


thread = threading.Thread(target=load)
thread.start()
thread.join()
PYTHON
check() {
    local code=0 printed
    printed=$(venv/bin/python interrupted.py "$1") || code=$?
    printf '%s dask_jobqueue: %s; exit code %s\n' "$1" "${printed//$'\n'/; }" "$code"
    [ "$code" = "$2" ] && [ "$printed" = "$3" ]
}
check without 130 $'handler of Python: True\nKeyboardInterrupt'
check with 0 $'dask-jobqueue 0.9.0\nhandler of Python: False'
threaded=$(venv/bin/python threaded.py)
echo "in a thread: $threaded"
[ "$threaded" = "ValueError: signal only works in main thread of the main interpreter" ]
