"""The `advscene` command: parses options, prints results, turns InputError into exit code 2."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Protocol

import tyro

from app.commands.convert import Convert
from app.commands.embed import Embed
from app.commands.envelope import Envelope
from app.commands.inspect import Inspect
from app.commands.make_demo import MakeDemo
from app.commands.make_patch import MakePatch
from app.commands.reconstruct import Reconstruct
from app.commands.render import Render
from app.commands.sweep import Sweep
from app.commands.train_demo import TrainDemo
from app.commands.victim import Victim
from app.commands.view import View
from app.commands.warmup import Warmup
from scene.errors import InputError


class Command(Protocol):
    """What every command offers."""

    def run(self) -> None:
        """Do it; raise InputError for anything that the user can mend."""


def _named(command: type, name: str) -> Any:
    return Annotated[command, tyro.conf.subcommand(name, prefix_name=False)]


COMMANDS = (
    _named(View, "view")
    | _named(Embed, "embed")
    | _named(Sweep, "sweep")
    | _named(Envelope, "envelope")
    | _named(Render, "render")
    | _named(Inspect, "inspect")
    | _named(Convert, "convert")
    | _named(Reconstruct, "reconstruct")
    | _named(Victim, "victim")
    | _named(MakePatch, "make-patch")
    | _named(MakeDemo, "make-demo")
    | _named(TrainDemo, "train-demo")
    | _named(Warmup, "warmup")
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `advscene`. Exits 0, 2 after bad input, 130 when interrupted."""
    _set_up_logging()
    command: Command = tyro.cli(
        COMMANDS,  # type: ignore[arg-type]
        prog="advscene",
        description="Where, exactly, does this printed patch fool this model?",
        args=arguments,
    )
    try:
        command.run()
    except InputError as error:
        logging.getLogger("advscene").error("%s", error)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _set_up_logging() -> None:
    from rich.console import Console
    from rich.logging import RichHandler

    handler = RichHandler(
        console=Console(stderr=True), show_path=False, show_time=False, markup=False
    )
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[handler], force=True)
    for chatty in ("numba", "matplotlib", "PIL", "websockets", "httpx", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


if __name__ == "__main__":
    main()
