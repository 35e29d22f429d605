"""`python -m online.inference`: the inference node. Settings: `INFERENCE_*`."""

import argparse
import logging
import sys

import uvloop

from online.inference.node.app import Node
from online.inference.node.settings import InferenceSettings
from online.logs import configure_logs
from schemas.settings import BadSettings, load_settings


def main() -> int:
    argparse.ArgumentParser(prog="python -m online.inference", description=__doc__).parse_args()
    try:
        settings = load_settings(InferenceSettings)
    except BadSettings as error:
        print(f"bad settings: {error}", file=sys.stderr)  # noqa: T201 - logs are not set up before settings
        return 2
    configure_logs("inference-node", settings.log_level)

    async def run() -> int:
        try:
            node = Node(settings)
        except OSError as error:
            logging.getLogger(__name__).error("cannot listen: %s", error)
            return 1
        await node.run()
        return 0

    return uvloop.run(run())


if __name__ == "__main__":
    sys.exit(main())
