"""A command class that refuses an option given twice, where click would keep the last value and drop the others.

Several values in an environment variable are separated by semicolons, as in Kafka's `super.users`: names of users
contain commas and blanks.
"""

from collections import Counter
from typing import Any

import typer
from typer.core import TyperCommand


class OnceCommand(TyperCommand):
    """A typer command whose options appear at most once, unless they are declared as repeatable."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        for parameter in self.params:
            repeatable: Any = parameter
            repeatable.envvar_list_splitter = ";"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. Raise BadParameter if an option that takes one value has two."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, count in Counter(given).items():
            is_once = parameter.param_type_name == "option" and not parameter.multiple
            # Half a command line, which a shell completes, may be anything.
            if count > 1 and is_once and not ctx.resilient_parsing:
                msg = f"{parameter.opts[0]} appears {count} times, and only one value would count: give it once"
                raise typer.BadParameter(msg)
        return super().parse_args(ctx, args)
