"""Runs one script in two processes that talk through gloo, on the CPU."""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile

TESTS = str(pathlib.Path(__file__).parent)


def free_ports(count):
    """Ports that nobody listens on at the moment; somebody may, a moment later."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def run_two(code, timeout=120, attempts=3):
    """Runs `code` as ranks 0 and 1 and returns what each printed.

    A port can be taken by somebody else between the choice and the use, so a failure to meet is
    tried again; a script that fails otherwise is an AssertionError.
    """
    for attempt in range(attempts):
        codes, outputs = _attempt(code, timeout)
        if codes == [0, 0]:
            return outputs
        met = any("both are here" in text for text in outputs)
        assert not met and attempt + 1 < attempts, f"{codes}\n" + "\n".join(outputs)
    raise AssertionError("unreachable")


def _attempt(code, timeout):
    master, *ports = free_ports(3)
    endpoints = [f"127.0.0.1:{port}" for port in ports]
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "rank.py"
        script.write_text(PREAMBLE + code)
        processes = []
        for rank in range(2):
            env = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join([TESTS] + [p for p in sys.path if p]),
                "PADDLE_TRAINER_ID": str(rank),
                "PADDLE_TRAINERS_NUM": "2",
                "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
                "PADDLE_CURRENT_ENDPOINT": endpoints[rank],
                "PADDLE_MASTER": f"127.0.0.1:{master}",
                "PADDLE_DISTRI_BACKEND": "gloo",
                "PADDLE_RANK_IN_NODE": str(rank),
            }
            output = open(pathlib.Path(folder) / f"{rank}.txt", "w+")
            command = [sys.executable, "-W", "ignore", str(script)]
            processes.append(
                subprocess.Popen(command, env=env, stdout=output, stderr=subprocess.STDOUT)
            )
            processes[-1].output = output
        return _collect(processes, timeout)


def _collect(processes, timeout):
    codes, outputs = [], []
    try:
        for process in processes:
            codes.append(process.wait(timeout))
    except subprocess.TimeoutExpired:
        codes.append("timeout")
    for process in processes:
        process.kill()
        process.wait()
        process.output.seek(0)
        outputs.append(process.output.read())
        process.output.close()
    return codes, outputs


PREAMBLE = """
import zlib
import numpy as np
import paddle
import paddle.distributed as dist
paddle.set_device("cpu")
dist.init_parallel_env()
rank = dist.get_rank()
assert dist.get_world_size() == 2
ready = []
dist.all_gather(ready, paddle.ones([1]))
print("both are here", flush=True)
"""
