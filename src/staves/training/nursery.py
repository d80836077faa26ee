"""The nursery: a process that has torch loaded, from which workers of emulated devices are forked.

A worker that is started by exec spends seconds of CPU on importing torch; a forked one has it. The
supervisor asks on a line of its own, one message a worker, with the worker's descriptors in it; the
worker answers there with its process id. It is forked twice, so that the supervisor, which adopts
orphans, becomes its parent, and then runs the script as `python SCRIPT` would.

What remains different: the process's command line, and Python's hash seed, which all workers of one
nursery share unless PYTHONHASHSEED says so anyway.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.machinery
import io
import json
import os
import select
import signal
import socket
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch._dynamo  # the first optimizer pulls it in, at a second of CPU

from staves.training._channel import Channel
from staves.training._refusal import report_input_errors

_LONGEST_REQUEST = 1 << 20  # bytes; more than a socket takes in one message by default
_DESCRIPTORS = 3
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15


@dataclass(frozen=True, slots=True)
class Birth:
    """What a forked process is to become.

    Args:
        member: its number in the job, named in the answer.
        arguments: `sys.argv`: the script and its arguments.
        environ: its whole environment, but for the number of its line to the supervisor.
        workdir: where it runs.
        channel, stdout, stderr: descriptors.
    """

    member: int
    arguments: list[str]
    environ: dict[str, str]
    workdir: str
    channel: int
    stdout: int
    stderr: int


def main() -> None:
    """Fork workers as asked on the line with the descriptor `sys.argv[1]`, until it is closed.

    Returns in the nursery; in each worker it runs the script, and ends as the script does.
    """
    line = socket.socket(fileno=int(sys.argv[1]))
    line.set_inheritable(False)
    # Each worker gets the hook anew: that of this process would speak on no line.
    sys.excepthook = sys.__excepthook__
    gc.collect()
    gc.freeze()  # a collection in a worker would write to, and so copy, all that is shared
    _answer(line, ready=True)
    birth = _serve(line)
    if birth is None:
        return
    try:
        _run(birth.arguments)
    except BaseException:
        sys.excepthook = _without_our_frames(sys.excepthook)
        raise  # for the interpreter, which knows what each exception means at the top


def _serve(line: socket.socket) -> Birth | None:
    """Return None when the supervisor has closed the line, and in a worker what it is to be."""
    supervisor = os.getppid()
    while True:
        data, descriptors, _, _ = socket.recv_fds(
            line, _LONGEST_REQUEST, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
        )
        if not data:
            return None
        channel, stdout, stderr = descriptors
        birth = Birth(**json.loads(data), channel=channel, stdout=stdout, stderr=stderr)
        threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208
        if threads > 1:  # locks that others hold would stay locked in the worker for ever
            _answer(line, member=birth.member, refused=f"it has {threads} threads")
        elif (between := os.fork()) == 0:
            _bear(line, birth, supervisor)
            return birth
        else:
            os.waitpid(between, 0)
        for descriptor in descriptors:
            os.close(descriptor)


def _bear(line: socket.socket, birth: Birth, supervisor: int) -> None:
    """Return in a process of its own whose parent is the supervisor; the one between ends here."""
    try:
        parent = os.pidfd_open(os.getpid())
        if os.fork() > 0:
            os._exit(0)
        select.select([parent], [], [])  # readable once it has ended and we are adopted
        os.close(parent)
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(1)  # it ended before it could have taken us with it
        libc.prctl(_PR_SET_NAME, Path(birth.arguments[0]).name.encode()[:15])
        os.setsid()
        os.chdir(birth.workdir)
        os.environ.clear()
        os.environ.update(birth.environ, STAVES_CHANNEL=str(birth.channel))
        for standard, descriptor in ((1, birth.stdout), (2, birth.stderr)):
            os.dup2(descriptor, standard)
            os.close(descriptor)
        _answer(line, member=birth.member, pid=os.getpid())
        line.close()
    except BrokenPipeError:  # the supervisor has given the nursery up, and started another worker
        os._exit(1)
    except OSError as error:
        _answer(line, member=birth.member, refused=str(error))
        os._exit(1)
    # Python reseeds its own generator at a fork.
    np.random.seed()  # noqa: NPY002
    torch.default_generator.seed()
    report_input_errors(Channel.inherited())


def _answer(line: socket.socket, **fields: Any) -> None:
    line.send(json.dumps(fields).encode())


def _run(arguments: list[str]) -> None:
    """Run the script in a fresh `__main__`, as `python SCRIPT` does."""
    script = arguments[0]
    sys.argv[:] = arguments
    sys.orig_argv[:] = [sys.executable, *arguments]
    if not sys.flags.safe_path:
        sys.path.insert(0, os.path.dirname(os.path.realpath(script)))  # noqa: PTH120
    file = os.path.join(os.getcwd(), script)  # noqa: PTH109, PTH118  # Python leaves ".." in, too
    module = types.ModuleType("__main__")
    module.__file__ = file
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", file)
    vars(module).update(__builtins__=sys.modules["builtins"], __cached__=None, __annotations__={})
    sys.modules["__main__"] = module
    with io.open_code(file) as source:
        code = compile(source.read(), file, "exec", dont_inherit=True)
    exec(code, vars(module))


Hook = Callable[[type[BaseException], BaseException, types.TracebackType | None], Any]


def _without_our_frames(ordinary: Hook) -> Hook:
    """Return a hook that leaves out of the traceback how the script was called."""

    def hook(
        kind: type[BaseException], error: BaseException, traceback: types.TracebackType | None
    ) -> None:
        main = vars(sys.modules["__main__"]).get("__file__")
        rest = traceback
        while rest is not None and rest.tb_frame.f_code.co_filename != main:
            rest = rest.tb_next
        ordinary(kind, error.with_traceback(rest), rest)

    return hook
