#!/usr/bin/env python
"""Start and stop a real SLURM on this one machine, for tests: munge, a controller, and a few virtual nodes.

Needs root and, on Debian, ``apt-get install slurmctld slurmd slurm-client munge``. Every file is below one
folder, and nothing is left behind by ``stop``::

    eval "$(python cluster/slurm_lab/lab.py start)"     # sets SLURM_CONF
    sinfo
    python cluster/slurm_lab/lab.py stop

The nodes share this machine's processors, network and disk; each takes one job of one processor at a time.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol", "sinfo", "squeue")
BASE = Path(tempfile.gettempdir()) / "daskrf-slurm-lab"
NODES = 3
_MARK = "# added by daskrf's SLURM lab"
_HOSTS = Path("/etc/hosts")
_MEMORY = 4096  # MiB a node, as SLURM counts it; the lab does not enforce it

# Without systemd and cgroups: processes are tracked by their parents. The intervals are those of a
# machine with three nodes, where a test waits for every decision of the scheduler.
_FIRST_LINE = "ClusterName=lab"
_CONFIGURATION = (
    f"{_FIRST_LINE}\n"
    + """\
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={base}/munge/socket
StateSaveLocation={base}/state
SlurmdSpoolDir={base}/spool.%n
SlurmctldPidFile={base}/pid/slurmctld
SlurmdPidFile={base}/pid/slurmd.%n
SlurmctldLogFile={base}/log/slurmctld
SlurmdLogFile={base}/log/slurmd.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=2,bf_interval=2
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
ReturnToService=2
KillWait=5
PartitionName=lab Nodes=ALL Default=YES MaxTime=UNLIMITED State=UP
"""
)


class LabError(Exception):
    """The lab cannot be started; the message says why."""


def missing() -> str:
    """Return why no lab can run here, or nothing."""
    if os.geteuid() != 0:
        return "the SLURM lab needs root"
    absent = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    if absent:
        return f"the SLURM lab needs {', '.join(absent)}: apt-get install slurmctld slurmd slurm-client munge"
    return ""


class Lab:
    """A SLURM below one folder.

    Parameters
    ----------
    base : Path
        The folder; it is removed by :meth:`stop`. Short, because it holds a socket.
    nodes : int
        Number of nodes, called n1, n2, ...
    """

    def __init__(self, base: Path = BASE, nodes: int = NODES) -> None:
        self.base = base
        self.nodes = nodes

    @property
    def environment(self) -> dict[str, str]:
        """What commands such as sbatch need in their environment."""
        return {"SLURM_CONF": str(self.base / "slurm.conf")}

    def start(self) -> None:
        """Start the daemons and return when every node is idle."""
        reason = missing()
        if reason:
            raise LabError(reason)
        if self._is_lab():
            raise LabError(f"a lab is in {self.base}: stop it first")
        if self.base.exists():
            raise LabError(f"{self.base} exists and is no lab: name another folder by --base")
        for name in ("munge", "state", "pid", "log", *(f"spool.n{i + 1}" for i in range(self.nodes))):
            (self.base / name).mkdir(parents=True)
        self._configure()
        self._name_host()
        try:
            self._start_daemons()
            self._await_idle()
        except (OSError, subprocess.CalledProcessError, LabError) as error:
            logs = self._last_lines()
            self.stop()
            raise LabError(f"SLURM did not start ({error}). {logs}") from error

    def stop(self) -> None:
        """Cancel all jobs, stop the daemons, and remove everything; nothing happens where no lab is."""
        if not self._is_lab():
            return
        with contextlib.suppress(LabError, subprocess.CalledProcessError, subprocess.TimeoutExpired):
            if self._pids("slurmctld"):  # without a controller these commands would wait for one
                self.run("scancel", "--partition=lab")
                self._await("", "squeue", "--noheader", "--format=%i", seconds=20)
        for name in ("slurmd", "slurmctld", "munged"):
            _end(self._pids(name))
        if _HOSTS.is_file() and _MARK in (text := _HOSTS.read_text()):
            _HOSTS.write_text("".join(line for line in text.splitlines(True) if _MARK not in line))
        shutil.rmtree(self.base, ignore_errors=True)

    def run(self, *command: str) -> str:
        """Run one of SLURM's commands and return what it prints."""
        result = subprocess.run(
            command,
            env=os.environ | self.environment | {"PATH": _path()},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return result.stdout.strip()

    def _is_lab(self) -> bool:
        """Whether the folder is one that :meth:`start` has made: only such a one may be removed."""
        configuration = self.base / "slurm.conf"
        return configuration.is_file() and configuration.read_text().startswith(f"{_FIRST_LINE}\n")

    def _configure(self) -> None:
        key = self.base / "munge" / "key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        host = socket.gethostname().partition(".")[0]
        port, *ports = _free_ports(1 + self.nodes)
        text = _CONFIGURATION.format(base=self.base, host=host, port=port)
        for i, node_port in enumerate(ports, start=1):
            text += (
                f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs=1 "
                f"RealMemory={_MEMORY} State=UNKNOWN\n"
            )
        (self.base / "slurm.conf").write_text(text)
        # slurmd looks for cgroups at its start although nothing uses them, and version 1 may be absent.
        (self.base / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")

    def _name_host(self) -> None:
        """Let this machine's name lead somewhere, which SLURM insists on."""
        host = socket.gethostname().partition(".")[0]
        try:
            socket.gethostbyname(host)
        except OSError:
            with _HOSTS.open("a") as file:
                file.write(f"127.0.0.1 {host} {_MARK}\n")

    def _start_daemons(self) -> None:
        munge = self.base / "munge"
        self.run(
            "munged",
            "--force",  # the folder of the socket may be below a /tmp that others can write
            f"--key-file={munge / 'key'}",
            f"--socket={munge / 'socket'}",
            f"--pid-file={self.base / 'pid' / 'munged'}",
            f"--seed-file={munge / 'seed'}",
            f"--log-file={self.base / 'log' / 'munged'}",
        )
        self.run("slurmctld", "-c")
        for i in range(self.nodes):
            self.run("slurmd", "-N", f"n{i + 1}")

    def _await_idle(self) -> None:
        self._await("idle", "sinfo", "--noheader", "--format=%T", seconds=30)

    def _await(self, expected: str, *command: str, seconds: float) -> None:
        """Wait until `command` prints `expected`."""
        end = time.monotonic() + seconds
        printed = "nothing"
        while time.monotonic() < end:
            with contextlib.suppress(subprocess.CalledProcessError):  # the controller may not answer yet
                printed = self.run(*command)
                if printed == expected:
                    return
            time.sleep(0.2)
        raise LabError(f"{' '.join(command)} says {printed!r} after {seconds:.0f} s, not {expected!r}")

    def _pids(self, program: str) -> list[int]:
        """Return the processes of a daemon; since the machine was restarted a number may be another's."""
        texts = [file.read_text().strip() for file in sorted((self.base / "pid").glob(f"{program}*"))]
        return [int(text) for text in texts if text.isdigit() and _name_of(int(text)) == program]

    def _last_lines(self) -> str:
        logs = sorted((self.base / "log").glob("*"))
        lines = [(log.name, log.read_text(errors="replace").splitlines()[-1:]) for log in logs]
        return "; ".join(f"{name}: {' '.join(last)}" for name, last in lines)


def _path() -> str:
    """Daemons live in sbin, which is not in everybody's PATH."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _name_of(pid: int) -> str:
    """Return the name of the program of a process, or nothing if there is none."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _end(pids: list[int]) -> None:
    """Terminate processes, and kill those that stay."""
    for number, patience in ((signal.SIGTERM, 15.0), (signal.SIGKILL, 5.0)):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        end = time.monotonic() + patience
        while (pids := [pid for pid in pids if Path(f"/proc/{pid}").exists()]) and time.monotonic() < end:
            time.sleep(0.05)
        if not pids:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description="A real SLURM on this machine, for tests.")
    parser.add_argument("action", choices=["start", "stop"])
    parser.add_argument("--base", type=Path, default=BASE, help=f"folder of all files (default {BASE})")
    parser.add_argument("--nodes", type=int, default=NODES, help=f"number of nodes (default {NODES})")
    arguments = parser.parse_args()
    lab = Lab(arguments.base, arguments.nodes)
    try:
        lab.start() if arguments.action == "start" else lab.stop()
    except LabError as error:
        sys.exit(f"slurm_lab: {error}")
    if arguments.action == "start":
        print("".join(f"export {name}={value}\n" for name, value in lab.environment.items()), end="")


if __name__ == "__main__":
    main()
