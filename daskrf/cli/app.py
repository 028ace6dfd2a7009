"""The command-line program: its commands, exit codes and error messages."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem, shell_complete

from daskrf import __version__
from daskrf.cli.options import Session, debug_option
from daskrf.cli.signals import Signals
from daskrf.commands import summaries
from daskrf.errors import DaskrfError, OptionError, printable

OK, FAILED, USAGE, DEFECT, INTERRUPTED, BROKEN_PIPE, TERMINATED = 0, 1, 2, 70, 130, 141, 143

_HELP = """Gaussian processes over ultra-large molecular libraries.

From SMILES files to fingerprints, to one-bit random features, to a Gaussian
process with calibrated uncertainty, to the best molecules of the whole library.
"""
_EPILOG = """\b
Start here:
  daskrf quickstart

\b
Exit codes: 0 done, 1 an error in the input, a store or the cluster, 2 wrong
usage, 70 a defect in daskrf, 130 interrupted, 143 terminated (after these two,
run the same command again to continue).
"""

_COMPLETE = "_DASKRF_COMPLETE"
_LONGEST = 20_000  # characters of an error message, which may contain column names and paths
_RESUME = " Finished work is kept: run the same command again to continue."


class _Program(click.Group):
    """The commands in the order of use, each created, with its imports, only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(summaries())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in summaries():
            return None
        from daskrf.cli.commands import command_of  # imports everything

        return command_of(name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands without creating them, which would import everything."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        commands = summaries().items()
        return [CompletionItem(name, help=text) for name, text in commands if name.startswith(incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(summaries().items()))


program = _Program(
    params=[debug_option()],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help=_HELP,
    epilog=_EPILOG,
)
click.version_option(__version__, prog_name="daskrf")(program)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; errors are printed as one sentence on standard error."""
    if instruction := os.environ.get(_COMPLETE):  # the shell asks for completions
        return shell_complete(program, {}, "daskrf", _COMPLETE, instruction)
    if arguments and arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    session = Session()
    signals = Signals(session)
    try:
        with signals, program.make_context("daskrf", list(arguments), obj=session) as ctx:
            result = program.invoke(ctx)
        sys.stdout.flush()
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        text = error.message.encode("utf-8", "backslashreplace").decode()  # arguments may be invalid UTF-8
        error.message = text  # type: ignore[misc]
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _say(f"\ndaskrf: stopped.{_RESUME if session.resumable else ''}")
        return TERMINATED if signals.first == signal.SIGTERM else INTERRUPTED
    except Exception as error:
        return _explain(session, error)
    return result if isinstance(result, int) else OK


def _explain(session: Session, error: Exception) -> int:
    """Print what went wrong, in one sentence, and return the exit code."""
    if isinstance(error, DaskrfError):
        return _failed(session, error, USAGE if isinstance(error, OptionError) else FAILED, str(error))
    if _is_of_cluster(error):
        return _failed(
            session,
            error,
            FAILED,
            f"the Dask cluster was lost ({type(error).__name__}); make sure that its scheduler and workers "
            "run, then run the same command again: finished work is kept.",
        )
    if isinstance(error, OSError):
        if error.errno == errno.EPIPE:
            return _leave_broken_pipe()
        return _failed(session, error, FAILED, _operating_system_error(error))
    return _failed(
        session,
        error,
        DEFECT,
        f"this is a defect in daskrf ({type(error).__name__}: {_first_line(error)}); run the same command "
        "with --debug and report its output.",
    )


def _is_of_cluster(error: Exception) -> bool:
    """Return whether the Dask cluster raised this: a closed connection, killed worker or cancelled task.

    So is a TimeoutError without a number of the operating system: a process did not answer in time.
    """
    if isinstance(error, TimeoutError) and error.errno is None:
        return True
    return any(kind.__module__.partition(".")[0] == "distributed" for kind in type(error).__mro__)


def _failed(session: Session, error: Exception, code: int, sentence: str) -> int:
    """Print `sentence` with a full stop, or, with --debug, let the traceback through."""
    if session.debug:
        raise error
    _say(f"daskrf: error: {printable(sentence.rstrip().removesuffix('.'), _LONGEST)}.")
    return code


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "no message")


def _operating_system_error(error: OSError) -> str:
    """Return the file name and the operating system's message about it."""
    where = f": {error.filename}" if error.filename else ""
    advice = "; free some space and run the same command again" if error.errno == errno.ENOSPC else ""
    return f"{error.strerror or _first_line(error)}{where}{advice}"


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # standard error may be closed too
        click.echo(text, err=True)


def _leave_broken_pipe() -> int:
    """Exit quietly when the reader of standard output (such as `head`) has closed it."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):  # ValueError: standard output is not a real file
        os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
    return BROKEN_PIPE
