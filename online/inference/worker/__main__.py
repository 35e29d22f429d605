"""`python -m online.inference.worker`: one version of one model. Started by the node, which owns its pipes."""

import logging
import os
import sys

import uvloop

from online.inference.report import EXIT_DRAINED
from online.inference.worker.options import WorkerOptions
from online.inference.worker.serving import Worker
from online.logs import configure_logs

# A device thread that is back from its device, or from one of a model's steps, waits so long for the interpreter
# where the event loop has it. With shorter times both lose more than they gain.
_SWITCH_S = 1e-4


def main() -> int:
    options = WorkerOptions.from_argv()
    configure_logs("inference-worker", options.log_level)
    sys.setswitchinterval(_SWITCH_S)

    def on_orphaned() -> None:
        logging.getLogger(__name__).warning("the node has gone")
        if options.unix_socket is not None:
            options.unix_socket.unlink(missing_ok=True)
        os._exit(EXIT_DRAINED)

    async def run() -> int:
        return await Worker(options, on_orphaned).run()

    return uvloop.run(run())


if __name__ == "__main__":
    status = main()
    logging.shutdown()
    # Not sys.exit: the device thread may still be inside torch, whose threads do not survive an orderly exit.
    os._exit(status)
